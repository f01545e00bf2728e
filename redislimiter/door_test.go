package redislimiter_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A road is the network to a server, which can be closed.
type road struct {
	mu     sync.Mutex
	closed bool
	hangs  bool // what is dialled then gets no answer
	mute   bool // or a connection on which nobody answers
	dials  int
	open   []net.Conn
	to     func() (net.Conn, error)
}

func (r *road) dial(ctx context.Context, network, _ string) (net.Conn, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.dials++
	if r.closed && r.hangs {
		r.mu.Unlock()
		<-ctx.Done()
		r.mu.Lock()
		return nil, &net.OpError{Op: "dial", Net: network, Err: ctx.Err()}
	}
	if r.closed && r.mute {
		conn, _ := net.Pipe()
		r.open = append(r.open, conn)
		return conn, nil
	}
	if r.closed {
		return nil, &net.OpError{Op: "dial", Net: network, Err: errors.New("connection refused")}
	}
	conn, err := r.to()
	r.open = append(r.open, conn)
	return conn, err
}

func (r *road) set(closed bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = closed
	for _, conn := range r.open {
		conn.Close()
	}
	r.open = nil
}

// dialled counts since it was last asked.
func (r *road) dialled() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	n := r.dials
	r.dials = 0
	return n
}

// atTheEndOf makes limiters of one client, with a road to a server in virtual time.
func atTheEndOf(t *testing.T, r *road, n int) (limiters []*rl.Limiter) {
	t.Helper()
	server, _ := limitertest.Redis(t)
	r.to = server.Dial
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", PoolSize: 4096, Dialer: r.dial, DialTimeout: 500 * time.Millisecond})
	t.Cleanup(func() { client.Close() })
	for range n {
		l, err := rl.New(client, "test", rl.TokenBucket(1000, time.Second, 1000))
		if err != nil {
			t.Fatal(err)
		}
		allow(t, l, "k", 1, true)
		limiters = append(limiters, l)
	}
	return limiters
}

// ask asks steadily for d, and reports how many of the calls were answered.
func ask(t *testing.T, limiters []*rl.Limiter, d time.Duration) (answered, failed int) {
	t.Helper()
	var mu sync.Mutex
	var running sync.WaitGroup
	end := time.Now().Add(d)
	for i := range 4 * len(limiters) {
		running.Go(func() {
			for time.Until(end) > 0 {
				_, err := limiters[i%len(limiters)].Allow(t.Context(), "k")
				mu.Lock()
				if err == nil {
					answered++
				} else {
					failed++
				}
				mu.Unlock()
				time.Sleep(5 * time.Millisecond)
			}
		})
	}
	running.Wait()
	return answered, failed
}

// A server that cannot be reached is dialled five times a second, by all limiters of a client together and without a
// breaker, and decides again at once when it is back.
func TestDeadServerIsDialledFewTimes(t *testing.T) {
	for name, r := range map[string]*road{"refused": {}, "black hole": {hangs: true}, "stopped": {mute: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				limiters := atTheEndOf(t, r, 3)
				r.set(true)
				ask(t, limiters, 4*time.Second) // go-redis dials five times for what was on its way when it happened
				goroutines := runtime.NumGoroutine()
				r.dialled()
				answered, failed := ask(t, limiters, 4*time.Second)
				if n := r.dialled(); n > 21 || n < 4 {
					t.Errorf("dialled %d times in 4 s", n)
				}
				if answered > 0 || failed < 100 {
					t.Errorf("%d calls answered, %d failed", answered, failed)
				}
				if n := runtime.NumGoroutine(); n > goroutines+10 {
					t.Errorf("%d goroutines, %d four seconds ago", n, goroutines)
				}
				r.set(false)
				ask(t, limiters, 250*time.Millisecond)
				if _, failed := ask(t, limiters, 100*time.Millisecond); failed > 0 {
					t.Errorf("%d calls failed 250 ms after the server's return", failed)
				}
				time.Sleep(5 * time.Second) // what go-redis has begun ends
			})
		})
	}
}

// A service has many limiters. When their first calls come to a server that cannot be reached, only those of a few
// milliseconds have go-redis dial: the others see that these get no further.
func TestFirstCallsOfManyLimiters(t *testing.T) {
	for name, r := range map[string]*road{"refused": {}, "black hole": {hangs: true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, _ := limitertest.Redis(t)
				r.to = server.Dial
				client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:6379", PoolSize: 20, Dialer: r.dial, DialTimeout: 500 * time.Millisecond})
				defer client.Close()
				r.set(true)
				var asked sync.WaitGroup
				for i := range 60 {
					l, err := rl.New(client, fmt.Sprint("route-", i), rl.TokenBucket(1000, time.Second, 1000))
					if err != nil {
						t.Fatal(err)
					}
					asked.Go(func() {
						if _, err := l.Allow(t.Context(), "k"); !errors.Is(err, rl.ErrUnavailable) || errors.Is(err, rl.ErrUncertain) {
							t.Errorf("route %d: %v", i, err)
						}
					})
					time.Sleep(time.Millisecond)
				}
				asked.Wait()
				if n := r.dialled(); n > 15 {
					t.Errorf("dialled %d times for 60 calls", n)
				}
				time.Sleep(5 * time.Second) // what go-redis has begun ends
			})
		})
	}
}

// Who is patient gets a decision when the server comes back inside the deadline.
func TestPatientCallersKnockAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &road{}
		l := atTheEndOf(t, r, 1)[0]
		r.set(true)
		_, _ = l.Allow(t.Context(), "k") // takes the lost connection with it
		l.Timeout = 2 * time.Second
		time.AfterFunc(700*time.Millisecond, func() { r.set(false) })
		start := time.Now()
		allow(t, l, "k", 1, true)
		if took := time.Since(start); took < 700*time.Millisecond || took > 1000*time.Millisecond {
			t.Errorf("decided after %v", took)
		}
		time.Sleep(5 * time.Second) // what go-redis has begun ends
	})
}

// Callers that wait for a knock leave at their deadlines, and are told that nothing was charged.
func TestKnockThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := &road{hangs: true}
		l := atTheEndOf(t, r, 1)[0]
		r.set(true)
		for i := range 10 {
			start := time.Now()
			_, err := l.Allow(t.Context(), "k")
			certain := i > 0 // the first is written to a connection that is closed
			if !errors.Is(err, rl.ErrUnavailable) || certain && errors.Is(err, rl.ErrUncertain) {
				t.Errorf("call %d: %v", i, err)
			}
			if took := time.Since(start); took > rl.DefaultTimeout {
				t.Errorf("call %d took %v", i, took)
			}
		}
		time.Sleep(5 * time.Second) // what go-redis has begun ends
	})
}
