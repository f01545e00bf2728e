package peers

import (
	"context"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/throttled/throttled/v2"
	throttledredis "github.com/throttled/throttled/v2/store/goredisstore.v9"
	"github.com/ulule/limiter/v3"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/load"
)

// The peers on Redis.
const (
	RedisRate = "redis_rate"
	Ulule     = "ulule/limiter"
	Throttled = "throttled"
	// Nothing is a script that decides nothing: what any script costs.
	Nothing = "script `return 1`"
)

var inRedis = []Peer{
	{Name: RedisRate, Open: openRedisRate},
	{Name: Ulule, Open: openUlule},
	{Name: Throttled, Open: openThrottled, Sent: func(ran map[string]float64) float64 {
		// TIME comes with a GET; the other GETs and SETEX are its script's own.
		return 2*ran["time"] + sum(ran, "setnx", "expire", "eval", "evalsha")
	}},
	{Name: Nothing, Open: openNothing},
}

// openRedisRate: GCRA, one script.
func openRedisRate(rdb redis.UniversalClient, q Quota) (load.Decide, error) {
	l, limit := redis_rate.NewLimiter(rdb), redis_rate.Limit{Rate: q.Rate, Period: q.Per, Burst: q.Burst}
	return func(ctx context.Context, key string) (bool, error) {
		r, err := l.Allow(ctx, key, limit)
		if err != nil {
			return false, err
		}
		return r.Allowed > 0, nil
	}, nil
}

// openUlule: fixed windows, one script. It also counts what it refuses.
func openUlule(rdb redis.UniversalClient, q Quota) (load.Decide, error) {
	store, err := ululeredis.NewStore(rdb)
	if err != nil {
		return nil, err
	}
	return decideByUlule(store, q), nil
}

func decideByUlule(store limiter.Store, q Quota) load.Decide {
	l := limiter.New(store, limiter.Rate{Period: q.Per, Limit: int64(q.Burst)})
	return func(ctx context.Context, key string) (bool, error) {
		r, err := l.Get(ctx, key)
		return !r.Reached, err
	}
}

// openThrottled: GCRA; reads, and then compares and swaps, ten times at most.
// Under contention it gives up with an error.
func openThrottled(rdb redis.UniversalClient, q Quota) (load.Decide, error) {
	store, err := throttledredis.NewCtx(rdb, "throttled:")
	if err != nil {
		return nil, err
	}
	l, err := throttled.NewGCRARateLimiterCtx(store, throttled.RateQuota{
		MaxRate: throttled.PerDuration(q.Rate, q.Per), MaxBurst: q.Burst - 1,
	})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (bool, error) {
		refused, _, err := l.RateLimitCtx(ctx, key, 1)
		return !refused, err
	}, nil
}

func openNothing(rdb redis.UniversalClient, _ Quota) (load.Decide, error) {
	script := redis.NewScript("return 1")
	return func(ctx context.Context, key string) (bool, error) {
		return true, script.Run(ctx, rdb, []string{key}).Err()
	}, nil
}
