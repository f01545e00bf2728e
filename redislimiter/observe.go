package redislimiter

import (
	"context"
	"time"
)

// An Event is a decision that [Observe] passes on.
type Event struct {
	// Key is the key as the caller gave it, in clear: it may be an address, an
	// e-mail or a secret, and clients make as many as they like. Do not log it,
	// and never make it a label of a metric; see [TopRefused].
	Key string
	// N is how many units were asked for. 0 was a look.
	N int
	// Result is what the caller gets. If Err is not nil, only its Name is
	// meant to be read.
	Result Result
	// Err is why there is no decision, or nil.
	Err error
	// Elapsed is the time that the decision took.
	Elapsed time.Duration
}

// Observe calls f after each decision of l, for metrics and logs, and changes
// nothing about it.
//
// f is called by the goroutine that asked, before that gets its answer: it has to
// be quick and safe for concurrent use, and its ctx may be done. If f panics, so
// does AllowN, with the units charged: hiding that would hide a bug. If l panics,
// f is not called. A nil f makes every call an error.
//
// What is inside l decides what f sees: around a [Fallback] the decisions that
// callers get, as its Primary the failures that lead to them; around [Shadow] what
// is let through with Result.Shadowed, inside it the refusals.
//
// Result.Refund and AllowAtMost are no decisions of l, so f does not hear of them.
// As with all decorators, [AllowAll] charges in order what is observed, which is not
// atomic: observe an [AllowerFunc] that calls AllowAll instead.
func Observe(l Allower, f func(context.Context, Event)) Allower { return &observed{l, f} }

type observed struct {
	inner Allower
	f     func(context.Context, Event)
}

func (o *observed) wraps() Allower { return o.inner }

func (o *observed) AllowN(ctx context.Context, key string, n int) (Result, error) {
	if o.f == nil {
		return Result{}, &argumentError{"redislimiter: Observe: f is nil"}
	}
	start := time.Now()
	r, err := o.inner.AllowN(ctx, key, n)
	o.f(ctx, Event{Key: key, N: n, Result: r, Err: err, Elapsed: time.Since(start)})
	return r, err
}

// describe tells what a limiter enforces, as far as its decorators are those of
// this package.
func describe(l Allower) (name string, limits []Limit) {
	for l != nil {
		switch d := l.(type) {
		case interface {
			Name() string
			Limits() []Limit
		}:
			return d.Name(), d.Limits()
		case interface{ wraps() Allower }:
			l = d.wraps()
		default:
			return "", nil
		}
	}
	return "", nil
}
