package integration_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

const (
	historySteps = 100 // decisions of one limiter
	historyKeys  = 2
	recorders    = 8 // more would put more time between two decisions on one key
)

// Short periods, so that real time passes through many windows while a history lasts, without a sleep. Redis expires
// keys by whole milliseconds, so those around one matter most.
var shortPeriods = []time.Duration{
	50 * time.Microsecond, 333 * time.Microsecond, 999 * time.Microsecond, time.Millisecond, 1001 * time.Microsecond,
	2 * time.Millisecond, 3777 * time.Microsecond, 7 * time.Millisecond, 20 * time.Millisecond, 61 * time.Millisecond,
	200 * time.Millisecond,
}

// A clockReader notes the server's clock from the reply of each script. Its limiter must not make two calls at a time.
type clockReader struct {
	rl.Client
	now atomic.Int64
}

func (c *clockReader) Process(ctx context.Context, cmd redis.Cmder) error {
	err := c.Client.Process(ctx, cmd)
	if script, ok := cmd.(interface{ Val() []int64 }); ok && err == nil {
		reply := script.Val()
		c.now.Store(reply[len(reply)-1])
	}
	return err
}

// record makes histories until they have so many steps together. It ends early when the test does.
func record(ctx context.Context, rdb rl.Client, seed uint64, steps int) <-chan history {
	histories := make(chan history, recorders)
	var begun atomic.Int64
	var running sync.WaitGroup
	for range recorders {
		running.Go(func() {
			for {
				i := begun.Add(1) - 1
				if int(i)*historySteps >= steps {
					return
				}
				select {
				case histories <- recordOne(ctx, rdb, seed+uint64(i)):
				case <-ctx.Done():
					return
				}
			}
		})
	}
	go func() {
		running.Wait()
		close(histories)
	}()
	return histories
}

func recordOne(ctx context.Context, rdb rl.Client, seed uint64) history {
	random := rand.New(rand.NewPCG(seed, 1))
	h := history{seed: seed, limits: randomLimits(random)}
	clock := &clockReader{Client: rdb}
	l, err := rl.New(clock, newName(), h.limits...)
	if err != nil {
		h.err = err
		return h
	}
	l.Timeout = patience
	// What it says about pauses is not followed: real time passes by itself.
	asks := limitertest.NewHistory(random, h.limits)
	for range historySteps {
		_, n := asks.Next()
		s := step{key: fmt.Sprint(random.IntN(historyKeys)), n: n}
		if s.got, h.err = l.AllowN(ctx, s.key, s.n); h.err != nil {
			return h
		}
		asks.Saw(s.got)
		s.now = clock.now.Load()
		h.steps = append(h.steps, s)
	}
	return h
}

// randomLimits picks one to three limits. Some are of long periods, from limitertest.
func randomLimits(random *rand.Rand) []rl.Limit {
	if random.IntN(4) == 0 {
		return limitertest.RandomLimits(random)
	}
	all := limitertest.Algorithms()
	for {
		limits := make([]rl.Limit, 1+random.IntN(3)*random.IntN(2))
		for i := range limits {
			per := shortPeriods[random.IntN(len(shortPeriods))]
			limits[i] = all[random.IntN(len(all))].Make(1+random.IntN(12), per)
		}
		if _, err := rl.NewMemory("probe", limits...); err == nil {
			return limits
		}
	}
}
