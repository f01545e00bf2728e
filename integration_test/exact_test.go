package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/processes"
	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

const (
	instances  = 4  // processes
	goroutines = 64 // of each process
)

// An assault is what one process does to a limiter: Calls on each of Keys keys, in a random order.
type assault struct {
	Addr, Name string
	Algorithms []string // the limiter has one limit of each
	Limit      int
	Keys       int
	Calls      int
}

var attack = processes.Register("attack", func(ctx context.Context, in assault, begin func()) (admitted []int64, err error) {
	rdb := redis.NewClient(&redis.Options{Addr: in.Addr})
	defer rdb.Close()
	limits, err := in.limits()
	if err != nil {
		return nil, err
	}
	l, err := rl.New(rdb, in.Name, limits...)
	if err != nil {
		return nil, err
	}
	l.Timeout = patience
	admitted = make([]int64, in.Keys)
	begin()
	return admitted, in.carryOut(ctx, l, admitted)
})

func (a assault) limits() (limits []rl.Limit, err error) {
	for _, name := range a.Algorithms {
		i := slices.IndexFunc(limitertest.Algorithms(), func(a limitertest.Algorithm) bool { return a.Name == name })
		if i < 0 {
			return nil, fmt.Errorf("no algorithm %q", name)
		}
		limit, err := lastingLimit(limitertest.Algorithms()[i], a.Limit)
		if err != nil {
			return nil, err
		}
		limits = append(limits, limit)
	}
	return limits, nil
}

// carryOut counts for each key what was admitted.
func (a assault) carryOut(ctx context.Context, l *rl.Limiter, admitted []int64) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	order := rand.Perm(a.Keys * a.Calls)
	var next atomic.Int64
	var running sync.WaitGroup
	for range goroutines {
		running.Go(func() {
			for ctx.Err() == nil {
				i := int(next.Add(1)) - 1
				if i >= len(order) {
					return
				}
				key := order[i] % a.Keys
				r, err := l.Allow(ctx, strconv.Itoa(key))
				if err != nil {
					cancel(err)
				}
				if r.Allowed {
					atomic.AddInt64(&admitted[key], 1)
				}
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// run attacks from all processes, and checks that each key admitted its limit to the unit.
func (a assault) run(t *testing.T, rdb *redis.Client) {
	t.Helper()
	start := time.Now()
	outputs := attack.Run(t, 2*time.Minute, slices.Repeat([]assault{a}, instances)...)
	wrong := 0
	for key := range a.Keys {
		var sum int64
		for _, out := range outputs {
			sum += out[key]
		}
		if sum != int64(a.Limit) {
			if wrong++; wrong <= 5 {
				t.Errorf("key %d: admitted %d, want %d", key, sum, a.Limit)
			}
		}
	}
	if wrong > 0 {
		t.Errorf("%d of %d keys are wrong", wrong, a.Keys)
	}
	if n := wantExpiry(t, rdb, a.Name); n < a.Keys {
		t.Errorf("%d keys on the server, for %d that were used", n, a.Keys)
	}
	calls := instances * a.Keys * a.Calls
	t.Logf("%d calls by %d × %d goroutines in %v", calls, instances, goroutines, time.Since(start).Round(time.Millisecond))
}

// Four processes of 64 goroutines admit exactly the limit of one key.
func TestOneKeyIsExact(t *testing.T) {
	onEachShared(t, func(t *testing.T, rdb *redis.Client) {
		eachAlgorithm(t, func(t *testing.T, a limitertest.Algorithm) {
			assault{
				Addr: rdb.Options().Addr, Name: newName(), Algorithms: []string{a.Name},
				Limit: 1000, Keys: 1, Calls: 500, // the limit twice over
			}.run(t, rdb)
		})
	})
}

// The same on a thousand keys at once: each has its own limit, and no process alone reaches it.
func TestThousandKeysAreExact(t *testing.T) {
	onEachShared(t, func(t *testing.T, rdb *redis.Client) {
		eachAlgorithm(t, func(t *testing.T, a limitertest.Algorithm) {
			assault{
				Addr: rdb.Options().Addr, Name: newName(), Algorithms: []string{a.Name},
				Limit: 5, Keys: 1000, Calls: 2,
			}.run(t, rdb)
		})
	})
}

// Several limits on one key are charged together by every process.
func TestMixedLimitsAreExact(t *testing.T) {
	onEachShared(t, func(t *testing.T, rdb *redis.Client) {
		var all []string
		for _, a := range limitertest.Algorithms() {
			all = append(all, a.Name)
		}
		assault{
			Addr: rdb.Options().Addr, Name: newName(), Algorithms: all,
			Limit: 50, Keys: 20, Calls: 25,
		}.run(t, rdb)
	})
}
