package integration_test

import (
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/eventually"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// An unlucky network cuts and refuses all connections from breakDown on. After mend it is whole again just after
// somebody has tried in vain once more.
type unlucky struct {
	mu         sync.Mutex
	down, last bool
	healed     time.Time
	open       []net.Conn
}

func (u *unlucky) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.down {
		if u.last {
			u.down, u.healed = false, time.Now()
		}
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err == nil {
		u.open = append(u.open, conn)
	}
	return conn, err
}

func (u *unlucky) breakDown() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.down, u.last = true, false
	for _, conn := range u.open {
		conn.Close()
	}
	u.open = nil
}

func (u *unlucky) mend() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.last = true
}

// whole tells since when it is.
func (u *unlucky) whole() (since time.Time, ok bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.healed, !u.down
}

// Once as many dials have failed as the pool has connections, go-redis fails calls without dialling, and dials once a
// second by itself. A small pool gets there in a moment if limiters dial for each call. The network comes back at the
// worst moment there is, just after the last dial, and does so several times: go-redis never forgets a failure before.
func TestRedisDecidesAgainSoonAfterALongOutage(t *testing.T) {
	const outages, limiters = 3, 4
	network := &unlucky{}
	rdb := dialWith(t, &redis.Options{Addr: servers.Shared(t, servers.Redis80), PoolSize: 20, Dialer: network.dial})
	var late lateness
	var loads []*load
	for range limiters {
		primary := newLimiter(t, rdb, rl.TokenBucket(1000, time.Second, 1000))
		allow(t, primary, "k", 1, true)
		loads = append(loads, begin(t, &rl.Fallback{Primary: primary, Secondary: rl.Open, Timeout: outageTimeout, OnError: func(error) {}}, &late))
	}
	for range outages {
		network.breakDown()
		before := loads[0].count(rl.SourceOpen).all()
		eventually.True(t, 30*time.Second, "the outage has lasted", func() bool {
			return loads[0].count(rl.SourceOpen).all() > before+500
		})
		network.mend()
		eventually.True(t, 30*time.Second, "the network is whole", func() bool { _, ok := network.whole(); return ok })
		healed, _ := network.whole()
		var worst time.Duration
		for _, l := range loads {
			eventually.True(t, 10*time.Second, "Redis decides again", func() bool { return l.resumed(healed) > 0 })
			worst = max(worst, l.resumed(healed))
		}
		t.Logf("resumed %v after Redis could be reached", worst.Round(time.Millisecond))
		if worst > resumption {
			t.Errorf("resumed after %v, want at most %v", worst, resumption)
		}
	}
	for _, l := range loads {
		l.end(t)
	}
	late.check(t)
}
