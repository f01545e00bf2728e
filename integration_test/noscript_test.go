package integration_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A repairCounter counts the EVALs, each of which repairs one NOSCRIPT.
type repairCounter struct {
	rl.Client
	repairs atomic.Int64
}

func (c *repairCounter) Process(ctx context.Context, cmd redis.Cmder) error {
	err := c.Client.Process(ctx, cmd)
	if cmd.Name() == "eval" {
		c.repairs.Add(1)
	}
	return err
}

// SCRIPT FLUSH in a tight loop under 100 goroutines: no error reaches a caller, and each call is charged once.
func TestFlushedScriptsAreNoticedByNobody(t *testing.T) {
	const callers, calls, spare = 100, 20, 7
	onEach(t, func(t *testing.T, kind servers.Kind) {
		addr := servers.Start(t, kind).Addr
		rdb := dial(t, addr)
		eachAlgorithm(t, func(t *testing.T, a limitertest.Algorithm) {
			counter := &repairCounter{Client: rdb}
			l := newLimiter(t, counter, lasting(t, a, callers*calls+spare))
			flushes := flushUntil(t, dial(t, addr), func() {
				var running sync.WaitGroup
				for range callers {
					running.Go(func() {
						for range calls {
							if r, err := l.Allow(t.Context(), "k"); err != nil || !r.Allowed {
								t.Errorf("allowed %v, %v", r.Allowed, err)
								return
							}
						}
					})
				}
				running.Wait()
			})
			if left := remaining(t, l, "k"); left != spare {
				t.Errorf("%d calls, charged %d", callers*calls, callers*calls+spare-left)
			}
			if counter.repairs.Load() == 0 {
				t.Error("no call met a flushed script")
			}
			wantExpiry(t, rdb, l.Name())
			t.Logf("%d calls, %d flushes, %d calls repaired", callers*calls, flushes, counter.repairs.Load())
		})
	})
}

// flushUntil flushes scripts as fast as it can while f runs.
func flushUntil(t *testing.T, rdb *redis.Client, f func()) (flushes int) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var flushing sync.WaitGroup
	flushing.Go(func() {
		for ctx.Err() == nil {
			if err := rdb.ScriptFlush(context.WithoutCancel(ctx)).Err(); err != nil {
				t.Errorf("flush: %v", err)
				return
			}
			flushes++
		}
	})
	f()
	cancel()
	flushing.Wait()
	return flushes
}

// A limiter whose script is gone repairs that with one command more, for all its instances.
func TestFlushCostsOneCommand(t *testing.T) {
	onEach(t, func(t *testing.T, kind servers.Kind) {
		rdb := dial(t, servers.Start(t, kind).Addr)
		counter := &repairCounter{Client: rdb}
		l := newLimiter(t, counter, everyAlgorithm(t, 10)...)
		other := named(t, rdb, l.Name(), l.Limits()...)
		allow(t, l, "k", 1, true)
		for i := range 3 {
			if err := rdb.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			allow(t, l, "k", 1, true)
			allow(t, l, "k", 1, true)
			allow(t, other, "k", 1, true)
			if n := counter.repairs.Load(); n != int64(i+2) { // one for the server that never had it
				t.Errorf("%d repairs after %d flushes", n, i+1)
			}
		}
		if left := remaining(t, l, "k"); left != 0 {
			t.Errorf("%d remaining after 10 calls of 10", left)
		}
	})
}
