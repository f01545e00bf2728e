package peers

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sethvargo/go-limiter/memorystore"
	ululememory "github.com/ulule/limiter/v3/drivers/store/memory"
	"golang.org/x/time/rate"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/load"
)

// The peers in memory.
const (
	RateInMap   = "x/time/rate in a sync.Map"
	GoLimiter   = "sethvargo/go-limiter"
	UluleMemory = "ulule/limiter, in memory"
)

// untimed: reading the clock takes as long as a decision here.
const untimed = 16

var inMemory = []Peer{
	{Name: RateInMap, Every: untimed, Open: openRateInMap},
	{Name: GoLimiter, Every: untimed, Open: openGoLimiter},
	{Name: UluleMemory, Every: untimed, Open: openUluleMemory},
}

// openRateInMap is what programs write themselves. It forgets no key ever.
func openRateInMap(_ redis.UniversalClient, q Quota) (load.Decide, error) {
	var limiters sync.Map
	every := rate.Every(q.Per / time.Duration(q.Rate))
	return func(_ context.Context, key string) (bool, error) {
		l, ok := limiters.Load(key)
		if !ok {
			l, _ = limiters.LoadOrStore(key, rate.NewLimiter(every, q.Burst))
		}
		return l.(*rate.Limiter).Allow(), nil
	}, nil
}

// openGoLimiter: fixed windows by key, swept by a goroutine. They are an hour
// long here: when one ends, the next begins with fewer tokens than it should have
// (v0.7.1), and the measurement would be of refusals.
func openGoLimiter(_ redis.UniversalClient, q Quota) (load.Decide, error) {
	store, err := memorystore.New(&memorystore.Config{Tokens: uint64(q.Burst), Interval: time.Hour})
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context, key string) (bool, error) {
		_, _, _, ok, err := store.Take(ctx, key)
		return ok, err
	}, nil
}

func openUluleMemory(_ redis.UniversalClient, q Quota) (load.Decide, error) {
	return decideByUlule(ululememory.NewStore(), q), nil
}
