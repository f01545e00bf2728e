package peers

import (
	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/load"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// Our limiters behind what leaves the trip out.
const (
	Cached = "token bucket, CacheDenials"
	Leased = "token bucket, Lease"
)

const (
	cachedKeys = 100_000
	leaseBatch = 100_000 // at most; a lease takes what it spends in about 10 ms
)

var decorated = []Peer{
	{Name: Cached, Every: untimed, Open: func(rdb redis.UniversalClient, q Quota) (load.Decide, error) {
		l, err := NewLimiter(rdb, Limit(Bucket, q))
		if err != nil {
			return nil, err
		}
		return decideBy(redislimiter.CacheDenials(l, cachedKeys)), nil
	}},
	{Name: Leased, Every: untimed, Open: func(rdb redis.UniversalClient, q Quota) (load.Decide, error) {
		l, err := NewLimiter(rdb, Limit(Bucket, q))
		if err != nil {
			return nil, err
		}
		return decideBy(redislimiter.Lease(l, leaseBatch)), nil
	}},
}
