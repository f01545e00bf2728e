package peers

import (
	"context"
	"fmt"
	"sync/atomic"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/load"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// The names of our own limiters in tables.
const (
	Bucket  = "token bucket"
	GCRA    = "GCRA"
	Counter = "sliding window counter"
	Hits    = "sliding window log"
	Memory  = "Memory"
	Three   = "bucket, counter and fixed window at once"
)

// Limit says a quota in our words, by one of the algorithms.
func Limit(algorithm string, q Quota) redislimiter.Limit {
	switch algorithm {
	case GCRA:
		return redislimiter.GCRA(q.Rate, q.Per, q.Burst)
	case Counter:
		return redislimiter.SlidingWindowCounter(q.Burst, q.Per)
	case Hits:
		return redislimiter.SlidingWindowLog(min(q.Burst, 1_000_000), q.Per)
	default:
		return redislimiter.TokenBucket(q.Rate, q.Per, q.Burst)
	}
}

var ours = []Peer{
	{Name: Bucket, Open: inRedisBy(Bucket)},
	{Name: GCRA, Open: inRedisBy(GCRA)},
	{Name: Counter, Open: inRedisBy(Counter)},
	{Name: Hits, Open: inRedisBy(Hits)},
	{Name: Three, Open: openThree},
	{Name: Memory, Every: untimed, Open: openMemory},
}

func inRedisBy(algorithm string) func(redis.UniversalClient, Quota) (load.Decide, error) {
	return func(rdb redis.UniversalClient, q Quota) (load.Decide, error) {
		l, err := NewLimiter(rdb, Limit(algorithm, q))
		if err != nil {
			return nil, err
		}
		return decideBy(l), nil
	}
}

// made counts limiters, so that each has a name and keys of its own.
var made atomic.Int64

// NewLimiter makes our limiter as it is measured everywhere: with its default
// Timeout, which the peers have not. An answer that comes too late is an error in
// the tables.
func NewLimiter(rdb redis.UniversalClient, limits ...redislimiter.Limit) (*redislimiter.Limiter, error) {
	return redislimiter.New(rdb, fmt.Sprint("bench", made.Add(1)), limits...)
}

// openThree: three rules that share a hash, in one call.
func openThree(rdb redis.UniversalClient, q Quota) (load.Decide, error) {
	l, err := NewLimiter(rdb, Limit(Bucket, q), Limit(Counter, q), redislimiter.FixedWindow(q.Burst, q.Per))
	if err != nil {
		return nil, err
	}
	return decideBy(l), nil
}

func openMemory(_ redis.UniversalClient, q Quota) (load.Decide, error) {
	m, err := redislimiter.NewMemory("bench", Limit(Bucket, q))
	if err != nil {
		return nil, err
	}
	m.MaxKeys = 2 * load.Pool // the peers have no bound that they would have to keep
	return func(ctx context.Context, key string) (bool, error) {
		r, err := m.AllowN(ctx, key, 1)
		return r.Allowed, err
	}, nil
}

func decideBy(l redislimiter.Allower) load.Decide {
	return func(ctx context.Context, key string) (bool, error) {
		r, err := l.AllowN(ctx, key, 1)
		return r.Allowed, err
	}
}
