package redislimiter

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/keys"
)

// CacheDenials remembers refusals of l until their RetryAfter, so that a client
// who keeps knocking costs no trip to Redis. It holds up to maxKeys keys, at least
// 32, and drops those that end first when there are more; maxKeys below 1 makes
// every call an error.
//
// It never admits anything, and never refuses longer than Redis would have: a
// refusal is counted from before the request was sent, by this process's
// monotonic clock. It holds for requests of the same n. What it answers has
// SourceDenyCache, and Remaining and ResetAfter as they were.
//
// What gives quota back early is not seen by the caches of other instances: after
// a Reset, a Refund, or when a limiter was made again with a raised limit, a
// remembered refusal lasts at most until its RetryAfter. [Result.Refund] of a
// result that came through the cache is seen by it at once.
//
// A limiter with a [BlockAfter] has its refusals counted by Redis: they are
// remembered only once the block has begun.
func CacheDenials(l Allower, maxKeys int) Allower {
	return &denials{inner: l, max: maxKeys, start: time.Now(), seed: maphash.MakeSeed()}
}

const (
	denialShards = 32  // a power of two
	denialSlots  = 256 // a power of two
)

type denials struct {
	inner  Allower
	max    int
	start  time.Time // instants are times since then
	seed   maphash.Seed
	shards [denialShards]denialShard

	// Keys that are asked for again and again are found without a lock, which all
	// processors would have to change for one look. A slot is filled and emptied
	// under the lock of its key's shard, so that nothing is left here of a key that
	// the shard has forgotten.
	slots [denialSlots]atomic.Pointer[denial]
}

type denialShard struct {
	mu   sync.RWMutex
	keys map[string]*denial
	_    [32]byte // keeps the locks of two shards off one cache line
}

// A denial is a refusal of n units that lasts until its end. It is never changed.
type denial struct {
	key    string
	n      int
	end    time.Duration
	result Result
}

// place is where a key is held.
func (d *denials) place(key string) (*denialShard, *atomic.Pointer[denial]) {
	hash := maphash.String(d.seed, key)
	return &d.shards[hash%denialShards], &d.slots[hash/denialShards%denialSlots]
}

func (d *denials) wraps() Allower { return d.inner }

func (d *denials) AllowN(ctx context.Context, key string, n int) (Result, error) {
	if d.max < 1 {
		return Result{}, &argumentError{fmt.Sprintf("redislimiter: CacheDenials: maxKeys is %d, must be at least 1", d.max)}
	}
	id := keys.Short(key)
	s, slot := d.place(id)
	sent := time.Since(d.start)
	known := slot.Load()
	if known == nil || known.key != id {
		known = s.find(id, slot)
	}
	if known != nil && known.n == n && sent < known.end {
		if err := ctx.Err(); err != nil {
			return Result{Name: known.result.Name}, err
		}
		r := known.result
		r.RetryAfter = known.end - sent
		return r, nil
	}
	r, err := d.inner.AllowN(ctx, key, n)
	if err != nil {
		return r, err
	}
	if !r.Allowed && n > 0 && final(r) {
		d.remember(&denial{key: id, n: n, end: sent + r.RetryAfter, result: r})
	}
	r.charge.cache = d
	return r, nil
}

// final reports whether asking again before RetryAfter is of no use to anybody:
// it was Redis that refused, and it does not count refusals.
func final(r Result) bool {
	if r.Source != SourceRedis && r.Source != SourceMemory || r.Degraded || r.RetryAfter <= 0 {
		return false
	}
	for _, l := range r.Limits {
		if l.Algorithm() == "block" {
			return r.Limit == l
		}
	}
	return true
}

// find looks into the shard, and puts what it finds into the slot.
func (s *denialShard) find(key string, slot *atomic.Pointer[denial]) *denial {
	s.mu.RLock()
	defer s.mu.RUnlock()
	known := s.keys[key]
	if known != nil {
		slot.Store(known)
	}
	return known
}

func (d *denials) remember(known *denial) {
	known.result.Source = SourceDenyCache
	s, slot := d.place(known.key)
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = map[string]*denial{}
	}
	if _, ok := s.keys[known.key]; !ok && len(s.keys) >= max(d.max/denialShards, 1) {
		d.drop(s)
	}
	s.keys[known.key] = known
	slot.Store(known)
}

// drop makes room: of a few denials the one that ends first goes.
func (d *denials) drop(s *denialShard) {
	var first *denial
	seen := 0
	for _, known := range s.keys { // starts at a random place
		if first == nil || known.end < first.end {
			first = known
		}
		if seen++; seen == evictSample {
			break
		}
	}
	_, slot := d.place(first.key)
	s.remove(first.key, slot)
}

// remove drops a key of the shard, which is locked.
func (s *denialShard) remove(key string, slot *atomic.Pointer[denial]) {
	delete(s.keys, key)
	if known := slot.Load(); known != nil && known.key == key {
		slot.CompareAndSwap(known, nil)
	}
}

// forget drops what is known of a key.
func (d *denials) forget(key string) {
	id := keys.Short(key)
	s, slot := d.place(id)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.remove(id, slot)
}
