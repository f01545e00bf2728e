package redislimiter

import (
	"context"
	"fmt"
	"hash/maphash"
	"math/bits"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/keys"
	"github.com/redislimiter/go-redislimiter/internal/model"
)

// DefaultMaxKeys bounds a [Memory] whose MaxKeys is 0.
const DefaultMaxKeys = 1 << 17

const (
	memoryShards = 64 // a power of two
	evictSample  = 8
	sweepSample  = 2
)

// A Memory decides by the state of this process alone, with the algorithms and
// results of a [Limiter]. Use it for a single instance, in tests, and as the
// secondary of a [Fallback]. Make one with [NewMemory]; it is safe for
// concurrent use, runs no goroutine and has nothing to close.
//
// It holds MaxKeys keys at most. A new key beyond that takes the place of one
// that is forgotten: of a few looked at, the one with the most left of its
// limit, so that keys that are at their limit stay. A client that keeps sending new
// keys mostly pushes out its own, and one of a victim's only while it has hardly
// been used. Keys whose state no longer matters are dropped while new ones arrive.
// Keys above 128 bytes are held as their hash.
type Memory struct {
	// MaxKeys bounds the keys held. 0 means DefaultMaxKeys, 131072. Set it
	// before the first use. A negative one makes every call an error.
	MaxKeys int

	name     string
	limits   []Limit
	rules    []model.Rule
	capacity int64
	start    time.Time
	seed     maphash.Seed
	count    atomic.Int64
	shards   [memoryShards]shard
}

type shard struct {
	mu   sync.Mutex
	keys map[string]*held
	_    [40]byte // keeps the locks of two shards off one cache line
}

// A held key is its states. The first is held in place, since most
// limiters have one rule.
type held struct {
	states []model.State
	one    [1]model.State
}

// NewMemory makes a limiter that lives in this process. The arguments are
// those of [New].
func NewMemory(name string, limits ...Limit) (*Memory, error) {
	if err := keys.CheckName(name); err != nil {
		return nil, err
	}
	rules, err := rulesOf(limits)
	if err != nil {
		return nil, nameError(name, err)
	}
	return &Memory{
		name: name, limits: slices.Clone(limits), rules: rules, capacity: capacityOf(rules),
		start: time.Now(), seed: maphash.MakeSeed(),
	}, nil
}

// Name is the name that NewMemory was given.
func (m *Memory) Name() string { return m.name }

// Limits are the limits that NewMemory was given. Do not change the slice.
func (m *Memory) Limits() []Limit { return m.limits }

// Len is how many keys are held.
func (m *Memory) Len() int { return int(m.count.Load()) }

// Allow is shorthand for AllowN(ctx, key, 1).
func (m *Memory) Allow(ctx context.Context, key string) (Result, error) {
	return m.AllowN(ctx, key, 1)
}

// AllowN charges n units to key if all of them fit now, and nothing otherwise.
// n = 0 looks. It returns ErrNeverAllowed if n is above what the limits can
// ever admit, and ctx.Err() if ctx is done.
func (m *Memory) AllowN(ctx context.Context, key string, n int) (Result, error) {
	if err := checkN(m.name, n, m.capacity); err != nil {
		return Result{Name: m.name}, err
	}
	if err := m.ready(ctx); err != nil {
		return Result{Name: m.name}, err
	}
	return m.decide(key, model.Charge{Cost: int64(n), Count: 1}), nil
}

// AllowAtMost charges as many of n units as fit now, and returns how many; see
// [Limiter.AllowAtMost].
func (m *Memory) AllowAtMost(ctx context.Context, key string, n int) (int, Result, error) {
	if err := checkN(m.name, n, model.Unlimited); err != nil {
		return 0, Result{Name: m.name}, err
	}
	if err := m.ready(ctx); err != nil {
		return 0, Result{Name: m.name}, err
	}
	r := m.decide(key, atMost(n, m.capacity))
	return int(r.charge.units), r, nil
}

func (m *Memory) decide(key string, c model.Charge) Result {
	taken := m.take(keys.Short(key), c)
	r := resultOf(m.name, m.limits, m.rules, &taken, max(taken.Granted-1, 0))
	r.Source = SourceMemory
	if taken.Granted > 0 {
		r.charge = charge{to: m, key: key, units: taken.Granted * c.Cost, at: taken.Now}
	}
	return r
}

// ready checks what every call has to.
func (m *Memory) ready(ctx context.Context) error {
	if m.MaxKeys < 0 {
		return &argumentError{fmt.Sprintf("redislimiter: %s: MaxKeys is %d, must not be negative", m.name, m.MaxKeys)}
	}
	return ctx.Err()
}

// Refund gives back n units that were charged to key and not used; see
// [Limiter.Refund]. It returns ctx.Err() if ctx is done, and an error if n is
// negative.
func (m *Memory) Refund(ctx context.Context, key string, n int) error {
	if err := checkN(m.name, n, model.Unlimited); err != nil {
		return err
	}
	return m.refund(ctx, key, int64(n), m.now())
}

func (m *Memory) refund(ctx context.Context, key string, n, at int64) error {
	if err := m.ready(ctx); err != nil {
		return err
	}
	key = keys.Short(key)
	s := &m.shards[m.shardOf(key)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.keys[key]; ok {
		for i, rule := range m.rules {
			rule.Refund(&e.states[i], m.now(), at, min(n, m.capacity))
		}
	}
	return nil
}

// Reset forgets everything about key. It returns ctx.Err() if ctx is done.
func (m *Memory) Reset(ctx context.Context, key string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	key = keys.Short(key)
	s := &m.shards[m.shardOf(key)]
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.keys[key]; ok {
		delete(s.keys, key)
		m.count.Add(-1)
	}
	return nil
}

// now is the time in microseconds. It follows the monotonic clock, so that a
// step of the wall clock credits nothing.
func (m *Memory) now() int64 {
	return m.start.UnixMicro() + time.Since(m.start).Microseconds()
}

func (m *Memory) shardOf(key string) int {
	return int(maphash.String(m.seed, key) >> (64 - bits.Len(memoryShards-1)))
}

// take decides on a key that is held, and otherwise on a new one, which is
// kept only if it was charged.
func (m *Memory) take(key string, c model.Charge) model.Taken {
	i := m.shardOf(key)
	s := &m.shards[i]
	s.mu.Lock()
	defer s.mu.Unlock()
	if e, ok := s.keys[key]; ok {
		return model.Take(m.rules, e.states, m.now(), c)
	}
	e := m.newHeld()
	taken := model.Take(m.rules, e.states, m.now(), c)
	if !taken.Changed(m.rules) {
		return taken
	}
	s.sweep(m)
	if s.keys == nil {
		s.keys = map[string]*held{}
	}
	s.keys[key] = e
	if m.count.Add(1) > int64(m.bound()) {
		m.evict(i, key)
	}
	return taken
}

func (m *Memory) newHeld() *held {
	e := &held{}
	if len(m.rules) == 1 {
		e.states = e.one[:]
	} else {
		e.states = make([]model.State, len(m.rules))
	}
	return e
}

func (m *Memory) bound() int {
	if m.MaxKeys == 0 {
		return DefaultMaxKeys
	}
	return m.MaxKeys
}
