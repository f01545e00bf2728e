package redislimiter

import (
	"context"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/model"
)

// An Allower decides whether n units may be done now for a key. [Limiter],
// [Memory], [Fallback] and the other decorators are Allowers, so that they can
// be put around each other.
//
// A refusal is an answer: Result.Allowed is false and the error is nil. An
// error means that there is no answer; its Result is not meant to be read, and
// denies if it is.
type Allower interface {
	AllowN(ctx context.Context, key string, n int) (Result, error)
}

// AllowerFunc makes an Allower of a function, for example one that picks a
// limiter by the plan of the customer.
type AllowerFunc func(ctx context.Context, key string, n int) (Result, error)

// AllowN calls f.
func (f AllowerFunc) AllowN(ctx context.Context, key string, n int) (Result, error) {
	return f(ctx, key, n)
}

// A Result is a decision. The zero Result denies.
type Result struct {
	// Allowed reports whether the request may go on; the units are charged
	// then. A look (n = 0) charges nothing and reports whether one unit
	// would be admitted.
	Allowed bool
	// Name is the name of the limiter.
	Name string
	// Limit is the rule that refused, or the one nearest to refusing.
	Limit Limit
	// Limits is every rule of the limiter. It is shared: do not change it.
	Limits []Limit
	// Remaining is how many units could be admitted right after this
	// decision. It is rounded down and never negative.
	Remaining int
	// RetryAfter is how long to wait until the same request can be admitted
	// if nobody else is in between, exact to the microsecond. It is 0 if Allowed.
	RetryAfter time.Duration
	// ResetAfter is how long until the key is as if it had never been seen.
	ResetAfter time.Duration
	// Source tells who decided.
	Source Source
	// Degraded reports that a Fallback's Secondary decided, because its
	// Primary did not.
	Degraded bool
}

// A Source is where a decision came from.
type Source uint8

// The sources. SourceNone is that of the zero Result.
const (
	SourceNone   Source = iota
	SourceRedis         // a Limiter, by the state in Redis
	SourceMemory        // a Memory, by the state of this process
	SourceOpen          // Open: nobody counted, and everything is admitted
	SourceClosed        // Closed: nobody counted, and nothing is admitted
)

// String is a word for logs and metrics, such as "redis".
func (s Source) String() string {
	switch s {
	case SourceRedis:
		return "redis"
	case SourceMemory:
		return "memory"
	case SourceOpen:
		return "open"
	case SourceClosed:
		return "closed"
	}
	return "none"
}

// resultOf puts a decision of the model into words.
func resultOf(name string, limits []Limit, d model.Decision, source Source) Result {
	return Result{
		Allowed:    d.Allowed,
		Name:       name,
		Limit:      limits[d.Rule],
		Limits:     limits,
		Remaining:  int(d.Remaining),
		RetryAfter: time.Duration(d.Retry) * time.Microsecond,
		ResetAfter: time.Duration(d.Reset) * time.Microsecond,
		Source:     source,
	}
}
