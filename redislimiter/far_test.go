package redislimiter_test

import (
	"context"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A far connection's answers come a round trip after what is written.
type far struct {
	net.Conn
	rtt time.Duration
}

func (f far) Write(b []byte) (int, error) {
	time.Sleep(f.rtt)
	return f.Conn.Write(b)
}

// farAway is a client of a server in virtual time that takes two round trips to
// dial, and what cuts all its connections.
func farAway(t *testing.T, rtt time.Duration, dials *atomic.Int64) (client *redis.Client, cut func()) {
	t.Helper()
	server, _ := limitertest.Redis(t)
	var mu sync.Mutex
	var open []net.Conn
	client = redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", DisableIdentity: true, Protocol: 2,
		Dialer: func(ctx context.Context, network, _ string) (net.Conn, error) {
			dials.Add(1)
			select {
			case <-time.After(2 * rtt):
			case <-ctx.Done():
				return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
			}
			conn, err := limitertest.Dial(server)
			if err != nil {
				return nil, err
			}
			mu.Lock()
			defer mu.Unlock()
			open = append(open, conn)
			return far{conn, rtt}, nil
		}})
	t.Cleanup(func() { client.Close() })
	return client, func() {
		mu.Lock()
		defer mu.Unlock()
		for _, conn := range open {
			conn.Close()
		}
		open = nil
	}
}

// A server that takes longer to dial than a call may take is not taken for dead:
// neither at first, nor after its connections were lost.
func TestAServerFartherThanTheTimeout(t *testing.T) {
	for _, hidden := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			var dials atomic.Int64
			client, cut := farAway(t, 10*time.Millisecond, &dials)
			var rdb rl.Client = client
			if hidden { // how it is dialled
				rdb = struct{ rl.Client }{client}
			}
			l := remade(t, rdb, rl.FixedWindow(1000, time.Hour))
			l.Timeout = 25 * time.Millisecond
			for _, when := range []string{"at first", "after the connections were lost"} {
				answered := 0
				for range 40 {
					if _, err := l.Allow(t.Context(), "k"); err == nil {
						answered++
					}
					time.Sleep(50 * time.Millisecond)
				}
				if answered < 30 {
					t.Errorf("hidden %v: %d of 40 calls answered %s, %d dials", hidden, answered, when, dials.Load())
				}
				cut()
			}
			time.Sleep(time.Second) // what go-redis has begun ends
		})
	}
}

// Callers whose deadlines are shorter than it takes to dial do not spoil it for
// those who have time.
func TestHasteOfOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials atomic.Int64
		client, cut := farAway(t, 2*time.Millisecond, &dials)
		l := remade(t, client, rl.FixedWindow(1000000, time.Hour))
		allow(t, l, "k", 1, true)
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		var others sync.WaitGroup
		for range 4 {
			others.Go(func() {
				for ctx.Err() == nil {
					hasty, done := context.WithTimeout(ctx, 3*time.Millisecond)
					_, _ = l.Allow(hasty, "k")
					done()
					time.Sleep(time.Millisecond)
				}
			})
		}
		time.Sleep(time.Second)
		cut()
		failed := 0
		for range 300 {
			if _, err := l.Allow(t.Context(), "k"); err != nil {
				failed++
			}
			time.Sleep(10 * time.Millisecond)
		}
		if failed > 15 {
			t.Errorf("%d of 300 patient calls failed after the connections were lost", failed)
		}
		cancel()
		others.Wait()
		time.Sleep(time.Second) // what go-redis has begun ends
	})
}
