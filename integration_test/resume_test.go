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

// An unlucky network cuts and refuses all connections from breakDown on. It is whole again just after somebody tried who had not
// done so for most of a second.
type unlucky struct {
	mu     sync.Mutex
	down   bool
	last   time.Time
	healed time.Time
	open   []net.Conn
}

func (u *unlucky) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	u.mu.Lock()
	down, now := u.down, time.Now()
	if down && now.Sub(u.last) > 800*time.Millisecond {
		u.down, u.healed = false, now
	}
	u.last = now
	u.mu.Unlock()
	if down {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err == nil {
		u.mu.Lock()
		u.open = append(u.open, conn)
		u.mu.Unlock()
	}
	return conn, err
}

func (u *unlucky) breakDown() {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.down, u.last = true, time.Now()
	for _, conn := range u.open {
		conn.Close()
	}
}

func (u *unlucky) whole() (time.Time, bool) {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.healed, !u.healed.IsZero()
}

// What a resumption may take at the worst moment: go-redis's own second, and the breaker's rest.
const (
	redial   = time.Second
	cooldown = 250 * time.Millisecond
)

// Once as many dials have failed as the pool has connections, go-redis fails calls without dialling, and dials once a
// second by itself. A short outage under load, or a long one without, gets there. Redis then comes back at the worst
// moment there is, just after such a dial.
func TestRedisDecidesAgainSoonAfterALongOutage(t *testing.T) {
	network := &unlucky{}
	rdb := dialWith(t, &redis.Options{Addr: servers.Shared(t, servers.Redis80), PoolSize: 4, Dialer: network.dial})
	primary := newLimiter(t, rdb, rl.TokenBucket(1000, time.Second, 1000))
	allow(t, primary, "k", 1, true)

	network.breakDown()
	var late lateness
	load := begin(t, &rl.Fallback{Primary: primary, Secondary: rl.Open, Timeout: outageTimeout}, &late)
	eventually.True(t, 30*time.Second, "go-redis dials once a second", func() bool {
		_, ok := network.whole()
		return ok
	})
	before := load.count(rl.SourceRedis)
	eventually.True(t, 10*time.Second, "Redis decides again", func() bool { return load.count(rl.SourceRedis).all() > before.all() })
	load.end(t)
	healed, _ := network.whole()
	resumed := load.count(rl.SourceRedis).first(before).Sub(healed).Round(time.Millisecond)
	t.Logf("resumed %v after Redis could be reached, %v", resumed, load.count(rl.SourceOpen))
	if most := redial + cooldown + 100*time.Millisecond; resumed > most {
		t.Errorf("resumed after %v, want at most %v", resumed, most)
	}
	late.check(t)
}
