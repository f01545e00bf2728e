package redislimiter

import (
	"context"
	"fmt"
	"hash/maphash"
	"sync"
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

const denialShards = 32 // a power of two

type denials struct {
	inner  Allower
	max    int
	start  time.Time // instants are times since then
	seed   maphash.Seed
	shards [denialShards]denialShard
}

type denialShard struct {
	mu   sync.RWMutex
	keys map[string]denial
	_    [32]byte // keeps the locks of two shards off one cache line
}

// A denial is a refusal of n units that lasts until its end.
type denial struct {
	n      int
	end    time.Duration
	result Result
}

func (d *denials) wraps() Allower { return d.inner }

func (d *denials) AllowN(ctx context.Context, key string, n int) (Result, error) {
	if d.max < 1 {
		return Result{}, &argumentError{fmt.Sprintf("redislimiter: CacheDenials: maxKeys is %d, must be at least 1", d.max)}
	}
	id := keys.Short(key)
	s := &d.shards[maphash.String(d.seed, id)%denialShards]
	sent := time.Since(d.start)
	s.mu.RLock()
	known, ok := s.keys[id]
	s.mu.RUnlock()
	if ok && known.n == n && sent < known.end {
		if err := ctx.Err(); err != nil {
			return Result{Name: known.result.Name}, err
		}
		known.result.RetryAfter = known.end - sent
		return known.result, nil
	}
	r, err := d.inner.AllowN(ctx, key, n)
	if err != nil {
		return r, err
	}
	if !r.Allowed && n > 0 && final(r) {
		d.remember(s, id, denial{n: n, end: sent + r.RetryAfter, result: r})
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

func (d *denials) remember(s *denialShard, id string, known denial) {
	known.result.Source = SourceDenyCache
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.keys == nil {
		s.keys = map[string]denial{}
	}
	if _, ok := s.keys[id]; !ok && len(s.keys) >= max(d.max/denialShards, 1) {
		s.drop()
	}
	s.keys[id] = known
}

// drop makes room: of a few denials the one that ends first goes.
func (s *denialShard) drop() {
	var first string
	end, seen := time.Duration(0), 0
	for key, known := range s.keys { // starts at a random place
		if seen == 0 || known.end < end {
			first, end = key, known.end
		}
		if seen++; seen == evictSample {
			break
		}
	}
	delete(s.keys, first)
}

// forget drops what is known of a key.
func (d *denials) forget(key string) {
	id := keys.Short(key)
	s := &d.shards[maphash.String(d.seed, id)%denialShards]
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.keys, id)
}
