package redislimiter

import (
	"context"
	"fmt"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/model"
)

// An Allower decides whether n units may be done now for a key. [Limiter],
// [Memory], [Fallback] and the other decorators are Allowers, so that they can
// be put around each other.
//
// A refusal is an answer: Result.Allowed is false and the error is nil. An
// error means that there is no answer; its Result denies, and only its Name is
// meant to be read.
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
	// Delay is how long the caller has to wait before it goes on, if a
	// LeakyBucket admitted it. Otherwise it is 0.
	Delay time.Duration
	// Source tells who decided.
	Source Source
	// Degraded reports that a Fallback's Secondary decided, because its
	// Primary did not.
	Degraded bool
	// Shadowed reports that the limiter refused, and Shadow let it through.
	Shadowed bool

	charge charge
}

// A charge is what a decision has charged, to give it back.
type charge struct {
	to    refunder
	key   string
	units int64
	at    int64 // microseconds, by the clock of whoever charged
	cache *denials
}

// A refunder takes back what it has charged.
type refunder interface {
	refund(ctx context.Context, key string, units, at int64) error
}

// Refund gives back n units of what this decision charged, through whatever
// decorators it came: to charge only failures, or to reserve an estimate and
// give back the rest. It does nothing if nothing was charged. n must not be
// negative or more than was charged. It takes one trip to Redis; an error is
// an ErrUnavailable, and the units then stay charged, or are given back late.
//
// What was charged in a window that has ended is not given back to the next
// one. See [Limiter.Refund] for what a log does.
func (r Result) Refund(ctx context.Context, n int) error {
	switch {
	case n < 0:
		return &argumentError{fmt.Sprintf("redislimiter: %s: n is %d, must not be negative", r.Name, n)}
	case r.charge.to == nil || n == 0:
		return nil
	case int64(n) > r.charge.units:
		return &argumentError{fmt.Sprintf("redislimiter: %s: n is %d, only %d were charged", r.Name, n, r.charge.units)}
	}
	return r.charge.giveBack(ctx, int64(n))
}

// giveBack refunds, and has the cache that the decision came through forget it.
func (c charge) giveBack(ctx context.Context, units int64) error {
	err := c.to.refund(ctx, c.key, units, c.at)
	if c.cache != nil {
		c.cache.forget(c.key)
	}
	return err
}

// A Source is where a decision came from.
type Source uint8

// The sources. SourceNone is that of the zero Result.
const (
	SourceNone      Source = iota
	SourceRedis            // a Limiter, by the state in Redis
	SourceMemory           // a Memory, by the state of this process
	SourceDenyCache        // CacheDenials, by a refusal of Redis that still holds
	SourceLease            // a Lease, by units that Redis granted ahead
	SourceOpen             // Open: nobody counted, and everything is admitted
	SourceClosed           // Closed: nobody counted, and nothing is admitted
)

// String is a word for logs and metrics, such as "redis".
func (s Source) String() string {
	switch s {
	case SourceRedis:
		return "redis"
	case SourceMemory:
		return "memory"
	case SourceDenyCache:
		return "deny-cache"
	case SourceLease:
		return "lease"
	case SourceOpen:
		return "open"
	case SourceClosed:
		return "closed"
	}
	return "none"
}

// resultOf puts the answer to request i of a charge into words.
func resultOf(name string, limits []Limit, rules []model.Rule, t *model.Taken, i int64) Result {
	d := t.Request(rules, i)
	return Result{
		Allowed:    d.Allowed,
		Name:       name,
		Limit:      limits[d.Rule],
		Limits:     limits,
		Remaining:  int(d.Remaining),
		RetryAfter: time.Duration(d.Retry) * time.Microsecond,
		ResetAfter: time.Duration(d.Reset) * time.Microsecond,
		Delay:      time.Duration(d.Delay) * time.Microsecond,
	}
}
