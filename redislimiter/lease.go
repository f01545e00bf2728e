package redislimiter

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/keys"
	"github.com/redislimiter/go-redislimiter/internal/model"
)

// A Leaser is what [Lease] needs: a [Limiter] or a [Memory].
type Leaser interface {
	Allower
	AllowAtMost(ctx context.Context, key string, n int) (int, Result, error)
}

// Lease takes units of very hot keys ahead in batches of up to batch, and spends
// them without a trip. Use it where a key sees tens of thousands of requests a
// second on an instance, and a small error is fine.
//
// Never more is spent in total than l granted. But units are spent up to 100 ms
// after they were charged, so that within any span up to instances × batch units
// more than the limit can go through. The batch follows the key's rate: it is what
// the key spends in about 10 ms, so a key with less than two hundred units a
// second takes nothing ahead and is as exact as without. Units that are not
// spent within 100 ms lapse: up to a batch is wasted whenever a key falls silent.
//
// A key at its limit is asked about as without a lease. A limiter with a
// [LeakyBucket] is not leased: units of one batch would all have the same Delay.
//
// What is spent has SourceLease, and its Remaining and ResetAfter are those of
// the last trip. It holds up to 4096 keys. A batch below 1 makes every call an error.
func Lease(l Leaser, batch int) Allower {
	all := &leases{inner: l, batch: int64(batch), start: time.Now(), seed: maphash.MakeSeed()}
	_, limits := describe(l)
	for _, limit := range limits {
		switch limit.rule.(type) {
		case model.LeakyBucket:
			all.queues = true
		case model.BlockAfter:
			all.blocks = true
		}
	}
	return all
}

const (
	leaseShards = 32
	maxLeases   = 4096
	leaseAhead  = 10 * time.Millisecond  // a batch lasts about so long
	leaseLife   = 100 * time.Millisecond // and lapses then
)

type leases struct {
	inner  Leaser
	batch  int64
	start  time.Time
	seed   maphash.Seed
	queues bool // has a LeakyBucket
	blocks bool // counts refusals: one that takes two trips would be counted twice
	shards [leaseShards]leaseShard
}

type leaseShard struct {
	mu   sync.RWMutex
	keys map[string]*lease
	_    [32]byte
}

// A lease is what is left of the units that were granted ahead for a key. The
// units of a batch are spent without a lock; taking the next batch has one.
type lease struct {
	current atomic.Pointer[batch]

	mu     sync.Mutex
	flight *flight       // that takes the next batch
	size   int64         // of it
	since  time.Duration // since when
	spent  int64         // so many units were spent
}

type batch struct {
	left   atomic.Int64
	size   int64
	end    time.Duration
	result Result // of the trip that granted it
}

// A flight is a trip that others wait for.
type flight struct {
	done  chan struct{}
	err   error // set before done is closed, as is
	alone bool  // it brought nothing: those who waited ask for themselves
}

func (l *leases) wraps() Allower { return l.inner }

func (l *leases) AllowN(ctx context.Context, key string, n int) (Result, error) {
	if l.batch < 1 {
		return Result{}, &argumentError{fmt.Sprintf("redislimiter: Lease: batch is %d, must be at least 1", l.batch)}
	}
	if n < 1 || int64(n) > l.batch || l.queues || l.blocks && n > 1 || ctx.Err() != nil {
		return l.inner.AllowN(ctx, key, n)
	}
	k := l.leaseOf(key)
	for waited := false; ; waited = true {
		if r, ok := k.spend(int64(n), time.Since(l.start)); ok {
			return r, nil
		}
		f, mine, size := k.board(time.Since(l.start), int64(n), l.batch)
		switch {
		case f == nil || !mine && waited: // nobody waits for two trips of others
			return l.inner.AllowN(ctx, key, n)
		case mine:
			return l.take(ctx, k, f, key, int64(n), size)
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return l.failed(ctx.Err())
		}
		switch {
		case f.err != nil:
			return l.failed(f.err)
		case f.alone:
			return l.inner.AllowN(ctx, key, n)
		}
	}
}

func (l *leases) failed(err error) (Result, error) {
	name, _ := describe(l.inner)
	return Result{Name: name}, err
}

// spend takes n units of the current batch.
func (k *lease) spend(n int64, now time.Duration) (Result, bool) {
	b := k.current.Load()
	if b == nil || now >= b.end {
		return Result{}, false
	}
	for {
		left := b.left.Load()
		if left < n {
			return Result{}, false
		}
		if b.left.CompareAndSwap(left, left-n) {
			r := b.result
			r.Source = SourceLease
			r.Remaining += int(left - n)
			r.charge.units = n
			return r, true
		}
	}
}

// board joins the flight that takes the next batch, or makes it the caller's to
// fly. There is none for a key that is not hot.
func (k *lease) board(now time.Duration, n, most int64) (f *flight, mine bool, size int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.flight != nil {
		return k.flight, false, 0
	}
	k.spent += n
	switch passed := now - k.since; {
	case passed > leaseLife: // the first time, or after a silence
		k.size, k.since, k.spent = 0, now, n
	case passed >= leaseAhead:
		k.size = min(int64(float64(k.spent)*float64(leaseAhead)/float64(passed)), most)
		k.since, k.spent = now, 0
	}
	if k.size <= 1 {
		return nil, false, 0
	}
	k.flight = &flight{done: make(chan struct{})}
	return k.flight, true, k.size
}

// land ends a flight and gives the next batch to all. Without one, those who waited
// ask for themselves, and nothing is taken ahead for a while.
func (k *lease) land(f *flight, next *batch, err error, now time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if next != nil {
		if b := k.current.Swap(next); b != nil {
			k.spent += b.size - b.left.Load()
		}
	} else if err == nil {
		f.alone = true
		k.size, k.since, k.spent = 0, now, 0
	}
	k.flight, f.err = nil, err
	close(f.done)
}

// take asks for n units and the next batch.
func (l *leases) take(ctx context.Context, k *lease, f *flight, key string, n, size int64) (Result, error) {
	asked, flying := time.Since(l.start), true
	defer func() {
		if flying { // it panicked, and others wait
			k.land(f, nil, nil, time.Since(l.start))
		}
	}()
	granted, r, err := l.inner.AllowAtMost(ctx, key, int(n+size))
	flying = false
	now, rest := time.Since(l.start), int64(granted)-n
	switch {
	case err != nil && (ctx.Err() != nil || timeIsUp(ctx)): // others are not to suffer from this caller's haste
		k.land(f, nil, nil, now)
		return r, err
	case err != nil:
		k.land(f, nil, err, now)
		return r, err
	case rest < 0:
		k.land(f, nil, nil, now)
		if n == 1 {
			return r, nil
		}
		// Not even n fit: what was granted goes back, and n alone is decided.
		if granted > 0 {
			_ = r.Refund(context.WithoutCancel(ctx), granted)
		}
		return l.inner.AllowN(ctx, key, int(n))
	}
	next := &batch{size: rest, end: asked + leaseLife, result: r}
	next.left.Store(rest)
	k.land(f, next, nil, now)
	r.Remaining += int(rest)
	r.charge.units = n
	return r, nil
}

func (l *leases) leaseOf(key string) *lease {
	key = keys.Short(key)
	s := &l.shards[maphash.String(l.seed, key)%leaseShards]
	s.mu.RLock()
	k, ok := s.keys[key]
	s.mu.RUnlock()
	if ok {
		return k
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k, ok := s.keys[key]; ok {
		return k
	}
	if s.keys == nil {
		s.keys = map[string]*lease{}
	}
	if len(s.keys) >= maxLeases/leaseShards {
		for old := range s.keys { // any: its units lapse
			delete(s.keys, old)
			break
		}
	}
	k = &lease{since: time.Since(l.start)}
	s.keys[key] = k
	return k
}
