package redislimiter

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/keys"
	"github.com/redislimiter/go-redislimiter/internal/model"
	"github.com/redislimiter/go-redislimiter/scripts"
)

// DefaultTimeout bounds a decision of a [Limiter] whose Timeout is 0.
const DefaultTimeout = 100 * time.Millisecond

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
	// before the first use. A negative one makes every call an error.
	Timeout time.Duration

	rdb      Client
	name     string
	limits   []Limit
	rules    []model.Rule
	capacity int64
	script   *scripts.Script
	prefixes []string
	args     []any // ARGV that every call begins with
	made     time.Time

	lane      lane         // of all calls, or
	nodes     *nodes       // those of each node
	single    lane         // for calls that share no trip
	trips     sync.Pool    // of *trip
	calls     sync.Pool    // of *call
	pipeliner pipeliner    // nil if rdb is none
	crossSlot atomic.Bool  // one node that takes keys of one slot only
	reloaded  atomic.Int64 // when the cluster's slots were last asked for, in nanoseconds since 1970
}

// New makes a limiter. All limits must admit a request, and are charged
// together or not at all; there may be up to eight. The name is part of every
// Redis key, rl:<name>:<segment>:{<key>}, the label in metrics and the policy's
// name in headers: limiters of one name and the same algorithms share their
// state, on purpose or not. It has up to 64 letters, digits, '.', '_' and '-'.
//
// What is stored belongs to a limit by its algorithm and its place among the
// limits of that algorithm. So append new limits: reordering two of one algorithm,
// or putting one in front, exchanges what clients have used. A [GCRA] starts afresh
// when it gets its first companion or loses its last.
//
// New checks everything and sends nothing; [Limiter.Check] tries the server.
func New(rdb Client, name string, limits ...Limit) (*Limiter, error) {
	if err := keys.CheckName(name); err != nil {
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
		script: script, prefixes: keys.Prefixes(name, script.Segments),
		made: time.Now(), single: lane{most: maxTrips, alone: true}, trips: sync.Pool{New: newTrip}, calls: sync.Pool{New: newCall},
	}
	l.pipeliner, _ = rdb.(pipeliner)
	if manyNodes(rdb) {
		l.nodes = newNodes(rdb)
	} else {
		l.lane = lane{most: sharedTrips, server: serverOf(rdb)}
		l.single.server = l.lane.server
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
		return Result{Name: l.name}, err
	}
	return l.decide(ctx, key, model.Charge{Cost: int64(n), Count: 1})
}

// AllowAtMost charges as many of n units as fit now, and returns how many. The
// Result is allowed if that is any. n may be above what the limits can ever
// admit at once; n = 0 looks.
func (l *Limiter) AllowAtMost(ctx context.Context, key string, n int) (int, Result, error) {
	if err := checkN(l.name, n, model.Unlimited); err != nil {
		return 0, Result{Name: l.name}, err
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

func (l *Limiter) decide(ctx context.Context, key string, charge model.Charge) (Result, error) {
	c := l.calls.Get().(*call)
	c.id, c.taken.Charge = keys.Escape(key), charge
	now, deadline := l.times(ctx)
	c.came = now
	if err := l.do(ctx, deadline, l.laneOf(c.id), c); err != nil {
		return Result{Name: l.name}, err
	}
	r := l.result(key, &c.taken, c.request)
	c.clear()
	l.calls.Put(c)
	return r, nil
}

// result is the answer to a request of a charge.
func (l *Limiter) result(key string, taken *model.Taken, request int64) Result {
	if taken.AtMost {
		request = max(taken.Granted-1, 0)
	}
	r := resultOf(l.name, l.limits, l.rules, taken, request)
	r.Source = SourceRedis
	switch {
	case !r.Allowed || taken.Cost == 0:
	case taken.AtMost:
		r.charge = charge{to: l, key: key, units: taken.Granted, at: taken.Now}
	default:
		r.charge = charge{to: l, key: key, units: taken.Cost, at: taken.Now}
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
//
// It returns ErrUnavailable if the units stay charged, which is also ErrUncertain
// if they may have been given back, and ctx.Err() if the caller has given up.
// A negative n is an error.
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
	_, err := l.alone(ctx, l.deadline(ctx), l.script.Refund, keys.Escape(key), min(n, l.capacity), at)
	return err
}

// alone makes a call of a script that shares no trip, on the Redis keys of an
// id and with the limiter's arguments, and returns the bare reply.
func (l *Limiter) alone(ctx context.Context, deadline time.Time, script *scripts.Script, id string, more ...any) ([]int64, error) {
	args := make([]any, 3, 3+len(l.prefixes)+len(l.args)+len(more))
	args[2] = len(l.prefixes)
	for _, prefix := range l.prefixes {
		args = append(args, prefix+id+"}")
	}
	return l.send(ctx, deadline, script, id, append(append(args, l.args...), more...))
}

// send makes a call of a script with arguments that are ready but for the first
// two, and returns the bare reply. The id is one of those whose keys they have.
func (l *Limiter) send(ctx context.Context, deadline time.Time, script *scripts.Script, id string, args []any) ([]int64, error) {
	c := newCall().(*call)
	c.id, c.script, c.args = id, script, args
	if err := l.do(ctx, deadline, &l.single, c); err != nil {
		return nil, err
	}
	return c.reply, nil
}

// Reset forgets everything about key, as if it had never been seen. It returns
// ErrUnavailable if Redis did not, which is also ErrUncertain if it may have, and
// ctx.Err() if the caller has given up. It can be repeated.
func (l *Limiter) Reset(ctx context.Context, key string) error {
	_, err := l.alone(ctx, l.deadline(ctx), scripts.Reset, keys.Escape(key))
	return err
}
