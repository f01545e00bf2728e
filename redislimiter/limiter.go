package redislimiter

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/model"
	"github.com/redislimiter/go-redislimiter/scripts"
)

// DefaultTimeout bounds a decision of a [Limiter] whose Timeout is 0.
const DefaultTimeout = 100 * time.Millisecond

// maxTrips bounds the calls of one limiter that are on their way to Redis,
// those that nobody waits for any more included.
const maxTrips = 512

// A Limiter decides by state that all its instances share in Redis. Make one
// with [New] and share it: it is safe for concurrent use, and it has nothing
// to close. Most callers want [Limiter.Allow].
//
// A decision is one atomic script and one round trip, by the clock of the
// Redis server. A request is charged at most once, whatever happens to the
// connection.
type Limiter struct {
	// Timeout bounds each decision: a call returns by then, with
	// ErrUnavailable, whatever go-redis or the server does. An earlier
	// deadline of the context wins. 0 means DefaultTimeout, 100 ms. Set it
	// before the first use.
	Timeout time.Duration

	rdb      Client
	name     string
	limits   []Limit
	rules    []model.Rule
	capacity int64
	script   *scripts.Script
	prefixes []string
	args     []any         // ARGV that every call begins with
	trips    chan struct{} // holds a token for each trip on its way
	idle     sync.Pool     // of *trip
}

// New makes a limiter. All limits must admit a request, and are charged
// together or not at all. The name is part of every Redis key, the label in
// metrics and the policy's name in headers: limiters of one name and the same
// algorithms share their state, on purpose or not. It has up to 64 letters,
// digits, '.', '_' and '-'.
//
// New checks everything and sends nothing; [Limiter.Check] tries the server.
func New(rdb Client, name string, limits ...Limit) (*Limiter, error) {
	if err := checkName(name); err != nil {
		return nil, err
	}
	if rdb == nil || reflect.ValueOf(rdb).Kind() == reflect.Pointer && reflect.ValueOf(rdb).IsNil() {
		return nil, nameError(name, errors.New("rdb is nil, a go-redis client is required"))
	}
	rules, err := rulesOf(limits)
	if err != nil {
		return nil, nameError(name, err)
	}
	script, err := scripts.New(rules)
	if err != nil {
		return nil, nameError(name, err)
	}
	l := &Limiter{
		rdb: rdb, name: name, limits: slices.Clone(limits), rules: rules, capacity: capacityOf(rules),
		script: script, prefixes: prefixes(name, script.Segments), trips: make(chan struct{}, maxTrips),
		idle: sync.Pool{New: newTrip},
	}
	for _, arg := range script.Args {
		l.args = append(l.args, arg)
	}
	return l, nil
}

// Name is the name that New was given.
func (l *Limiter) Name() string { return l.name }

// Limits are the limits that New was given. Do not change the slice.
func (l *Limiter) Limits() []Limit { return l.limits }

// Allow is shorthand for AllowN(ctx, key, 1).
func (l *Limiter) Allow(ctx context.Context, key string) (Result, error) {
	return l.AllowN(ctx, key, 1)
}

// AllowN charges n units to key if all of them fit now, and nothing otherwise.
// n = 0 looks: nothing is charged or written, and Allowed reports whether one
// unit would fit.
//
// Any string is a key, the empty one included; those above 128 bytes are
// stored as their hash.
//
// It returns ErrNeverAllowed if n is above what the limits can ever admit,
// ErrUnavailable if Redis gave no decision, which is also ErrUncertain if the
// units may have been charged, and ctx.Err() if the caller has given up.
func (l *Limiter) AllowN(ctx context.Context, key string, n int) (Result, error) {
	if err := checkN(l.name, n, l.capacity); err != nil {
		return Result{}, err
	}
	return l.decide(ctx, key, model.Charge{Cost: int64(n), Count: 1})
}

// AllowAtMost charges as many of n units as fit now, and returns how many. The
// Result is allowed if that is any. n may be above what the limits can ever
// admit at once; n = 0 looks.
func (l *Limiter) AllowAtMost(ctx context.Context, key string, n int) (int, Result, error) {
	if err := checkN(l.name, n, model.Unlimited); err != nil {
		return 0, Result{}, err
	}
	r, err := l.decide(ctx, key, atMost(n, l.capacity))
	return int(r.charge.units), r, err
}

// atMost asks for up to n units in one request.
func atMost(n int, capacity int64) model.Charge {
	if n == 0 {
		return model.Charge{Count: 1}
	}
	return model.Charge{Cost: 1, Count: min(int64(n), capacity), AtMost: true}
}

func (l *Limiter) decide(ctx context.Context, key string, c model.Charge) (Result, error) {
	taken := model.Taken{Charge: c}
	if err := l.take(ctx, escapeID(key), &taken); err != nil {
		return Result{}, err
	}
	return l.result(key, &taken), nil
}

// result is the answer to a charge of one request.
func (l *Limiter) result(key string, taken *model.Taken) Result {
	r := resultOf(l.name, l.limits, l.rules, taken, max(taken.Granted-1, 0))
	r.Source = SourceRedis
	if taken.Granted > 0 {
		r.charge = charge{to: l, key: key, units: taken.Granted * taken.Cost, at: taken.Now}
	}
	return r
}

// Refund gives back n units that were charged to key and not used, just now: a
// window that has begun since then is given units of the one before. Prefer
// [Result.Refund], which knows when the charge was. It never creates a key and
// never leaves more than a fresh key would have; what the key does not have
// used is lost.
//
// A log gives back its newest units. If others were charged to the key in
// between, theirs go and the older ones stay, which leave the window earlier.
func (l *Limiter) Refund(ctx context.Context, key string, n int) error {
	if err := checkN(l.name, n, model.Unlimited); err != nil {
		return err
	}
	return l.refund(ctx, key, int64(n), 0)
}

func (l *Limiter) refund(ctx context.Context, key string, n, at int64) error {
	if n == 0 {
		return nil
	}
	t := l.newTrip(l.script.Refund, escapeID(key))
	t.cost, t.more = min(n, l.capacity), at
	t.args = append(append(t.args, l.args...), &t.cost, &t.more)
	_, err := l.send(ctx, t)
	return err
}

// take asks Redis to decide a charge to an escaped id.
func (l *Limiter) take(ctx context.Context, id string, taken *model.Taken) error {
	t := l.newTrip(l.script, id)
	t.cost, t.more = taken.Cost, taken.Count
	if taken.AtMost {
		t.more = -taken.Count
	}
	t.args = append(append(t.args, l.args...), &t.cost, &t.more)
	reply, err := l.send(ctx, t)
	if err != nil {
		return err
	}
	if _, err := l.script.Decode(reply, 0, taken); err != nil {
		return &unavailable{name: l.name, cause: err, uncertain: true}
	}
	return nil
}

// newTrip begins a call of a script on the Redis keys of an id.
func (l *Limiter) newTrip(script *scripts.Script, id string) *trip {
	t := l.idle.Get().(*trip)
	t.rdb, t.script, t.tokens = l.rdb, script, l.trips
	t.args = append(t.args[:0], nil, nil, len(l.prefixes))
	for i, prefix := range l.prefixes {
		t.keys[i] = prefix + id + "}"
		t.args = append(t.args, &t.keys[i])
	}
	return t
}

// send makes the trip and waits for it, but no longer than the deadline.
func (l *Limiter) send(ctx context.Context, t *trip) ([]int64, error) {
	if l.Timeout < 0 {
		return nil, &argumentError{fmt.Sprintf("redislimiter: %s: Timeout is %v, must not be negative", l.name, l.Timeout)}
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	t.caller, t.deadline = ctx, l.deadline(ctx)
	t.timer.Reset(time.Until(t.deadline))
	if err := l.enter(ctx, t.timer); err != nil {
		return nil, err
	}
	go t.start()
	select {
	case <-t.finished:
		return l.arrived(ctx, t)
	case <-ctx.Done():
		return nil, l.gone(ctx, t.leave())
	case <-t.timer.C:
		return nil, l.gone(ctx, t.leave())
	}
}

// arrived reads what the trip brought back.
func (l *Limiter) arrived(ctx context.Context, t *trip) ([]int64, error) {
	reply, err, sent := t.command.Val(), t.err, t.command.state.Load() == written
	t.clear()
	l.idle.Put(t)
	if ctx.Err() == context.Canceled {
		return nil, context.Canceled // never told "allowed"
	}
	if err != nil {
		return nil, classify(l.name, err, sent)
	}
	return reply, nil
}

// deadline is when a call has to be back.
func (l *Limiter) deadline(ctx context.Context) time.Time {
	timeout := l.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	deadline := time.Now().Add(timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		return d
	}
	return deadline
}

// enter waits for its turn if too many calls are on their way.
func (l *Limiter) enter(ctx context.Context, timer *time.Timer) error {
	select {
	case l.trips <- struct{}{}:
		return nil
	default:
	}
	select {
	case l.trips <- struct{}{}:
		return nil
	case <-ctx.Done():
	case <-timer.C:
	}
	return l.gone(ctx, false)
}

// gone is the error for a caller that leaves without an answer.
func (l *Limiter) gone(ctx context.Context, sent bool) error {
	switch err := ctx.Err(); err {
	case nil:
		return &unavailable{name: l.name, cause: errTimeout, uncertain: sent}
	case context.DeadlineExceeded:
		return &unavailable{name: l.name, cause: err, uncertain: sent}
	default:
		return err
	}
}

// Reset forgets everything about key, as if it had never been seen.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	return l.forget(ctx, escapeID(key))
}

func (l *Limiter) forget(ctx context.Context, id string) error {
	_, err := l.send(ctx, l.newTrip(scripts.Reset, id))
	return err
}
