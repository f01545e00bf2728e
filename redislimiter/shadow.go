package redislimiter

import "context"

// Shadow lets everything through that l refuses, and marks it with
// [Result.Shadowed], to see before going live what a limit would refuse.
// Errors of l pass through: wrap it in a [Fallback] to l's liking.
func Shadow(l Allower) Allower { return shadow{l} }

type shadow struct{ Allower }

func (s shadow) wraps() Allower { return s.Allower }

func (s shadow) AllowN(ctx context.Context, key string, n int) (Result, error) {
	r, err := s.Allower.AllowN(ctx, key, n)
	if err == nil && !r.Allowed && n > 0 {
		r.Allowed, r.Shadowed, r.RetryAfter = true, true, 0
	}
	return r, err
}
