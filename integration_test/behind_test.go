package integration_test

import (
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/eventually"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/faults"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

const faultyLimit = 10

// Behind is limiters of one name: some behind a proxy, and one that looks at the server without it.
type behind struct {
	proxy  *faults.Proxy
	faulty []*rl.Limiter
	direct *rl.Limiter
	rdb    *redis.Client // of direct
	before int           // EVALSHAs that were forwarded before the fault
}

// behindProxy makes them, with so many connections through the proxy open already.
func behindProxy(t *testing.T, addr string, connections, limiters int) *behind {
	t.Helper()
	b := &behind{proxy: faults.Start(t, addr), rdb: dialWith(t, &redis.Options{Addr: addr, PoolSize: 2})}
	b.direct = newLimiter(t, b.rdb, everyAlgorithm(t, faultyLimit)...)
	rdb := dialWith(t, &redis.Options{Addr: b.proxy.Addr(), PoolSize: connections, MinIdleConns: connections})
	for range limiters {
		b.faulty = append(b.faulty, named(t, rdb, b.direct.Name(), b.direct.Limits()...))
	}
	allow(t, b.faulty[0], "before", 1, true) // the script is loaded
	eventually.True(t, 10*time.Second, "the connections are open", func() bool {
		return int(rdb.PoolStats().IdleConns) >= connections
	})
	for _, l := range b.faulty {
		l.Timeout = 0
	}
	b.before = b.proxy.Forwarded("evalsha")
	return b
}

// callEach makes one call on each of faultyCalls keys. None may be allowed.
func (b *behind) callEach(t *testing.T, late *lateness) []error {
	t.Helper()
	errs := make([]error, faultyCalls)
	keys := make(chan int)
	var running sync.WaitGroup
	for caller := range faultyCallers {
		l := b.faulty[caller%len(b.faulty)]
		running.Go(func() {
			for i := range keys {
				late.call(rl.DefaultTimeout, func() {
					var r rl.Result
					if r, errs[i] = l.Allow(t.Context(), strconv.Itoa(i)); r.Allowed {
						t.Errorf("call %d is allowed, %v", i, errs[i])
					}
				})
			}
		})
	}
	for i := range faultyCalls {
		keys <- i
	}
	close(keys)
	running.Wait()
	return errs
}

// settled returns when nothing of the calls is on its way any more, and tells how often they were sent. To get there
// it makes as many calls again: one that is answered came after those that had waited for a connection.
func (b *behind) settled(t *testing.T) (sent int) {
	t.Helper()
	l := named(t, dialWith(t, &redis.Options{Addr: b.proxy.Addr()}), b.direct.Name(), b.direct.Limits()...)
	again := append(b.faulty, l)
	for _, l := range again {
		l.Timeout = patience
		allow(t, l, "afterwards", 0, true)
	}
	eventually.True(t, 10*time.Second, "all that was sent has been answered or lost", func() bool {
		p := b.proxy
		sent = p.Forwarded("evalsha") - b.before
		return p.Held() == 0 && p.Forwarded("evalsha") == p.Answered("evalsha")+p.Lost("evalsha")
	})
	return sent - len(again)
}

// charged looks at what a key of callEach was charged.
func (b *behind) charged(t *testing.T, i int) int {
	t.Helper()
	return faultyLimit - remaining(t, b.direct, strconv.Itoa(i))
}
