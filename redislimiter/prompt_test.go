package redislimiter_test

import (
	"context"
	"errors"
	"net"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// whose tells in whose goroutine commands are sent.
type whose struct {
	callers, others atomic.Int64
	before          func()
}

func (w *whose) DialHook(next redis.DialHook) redis.DialHook { return next }

func (w *whose) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

func (w *whose) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() != "evalsha" {
			return next(ctx, cmd)
		}
		stack := make([]byte, 1<<14)
		if strings.Contains(string(stack[:runtime.Stack(stack, false)]), ").AllowN(") {
			w.callers.Add(1)
		} else {
			w.others.Add(1)
		}
		if w.before != nil {
			w.before()
		}
		return next(ctx, cmd)
	}
}

// promptLimiter is one whose client obeys deadlines.
func promptLimiter(t *testing.T, dial func() (net.Conn, error)) (*whose, *rl.Limiter) {
	t.Helper()
	client := redis.NewClient(&redis.Options{
		Addr: "127.0.0.1:6379", PoolSize: 4096, ContextTimeoutEnabled: true,
		Dialer: func(context.Context, string, string) (net.Conn, error) { return dial() },
	})
	t.Cleanup(func() { client.Close() })
	w := &whose{}
	client.AddHook(w)
	l, err := rl.New(client, "test", rl.TokenBucket(1, time.Hour, 100))
	if err != nil {
		t.Fatal(err)
	}
	return w, l
}

// Where go-redis obeys deadlines a lone call runs in its caller's goroutine, unless it may have to leave before.
func TestLoneCallsOfAPromptClient(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _ := limitertest.Redis(t)
		w, l := promptLimiter(t, server.Dial)
		cancellable, cancel := context.WithCancel(t.Context())
		defer cancel()
		allow(t, l, "warm", 1, true)
		for _, test := range []struct {
			ctx     context.Context
			timeout time.Duration
			callers int64
		}{
			{cancellable, 0, 10}, {cancellable, 50 * time.Millisecond, 10}, {cancellable, time.Second, 0},
			{context.Background(), time.Second, 10},
		} {
			w.callers.Store(0)
			w.others.Store(0)
			l.Timeout = test.timeout
			for range 10 {
				if _, err := l.Allow(test.ctx, "k"); err != nil {
					t.Fatal(err)
				}
			}
			if n, others := w.callers.Load(), w.others.Load(); n != test.callers || n+others != 10 {
				t.Errorf("timeout %v: %d commands in the caller's goroutine, %d elsewhere", test.timeout, n, others)
			}
		}
		if left := allow(t, l, "k", 0, true).Remaining; left != 60 {
			t.Errorf("%d left of 100 after 40 charges", left)
		}
	})
}

// A caller whose trip others wait behind does not carry them: they are answered, and he is back with his own answer.
func TestCallerCarriesNobodyElse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _ := limitertest.Redis(t)
		w, l := promptLimiter(t, server.Dial)
		allow(t, l, "warm", 1, true)
		w.before = func() { time.Sleep(5 * time.Millisecond) }
		w.callers.Store(0)
		w.others.Store(0)
		start := time.Now()
		var wg sync.WaitGroup
		for range 200 {
			wg.Go(func() {
				allowAny(t, l, "k", 1)
			})
		}
		wg.Wait()
		if took := time.Since(start); took > 15*time.Millisecond || w.callers.Load() != 1 || w.others.Load() != 2 {
			t.Errorf("%v, %d commands by a caller, %d by others", took, w.callers.Load(), w.others.Load())
		}
		if left := allow(t, l, "k", 0, false).Remaining; left != 0 {
			t.Errorf("%d left of 100 after 200 charges", left)
		}
	})
}

// A server that stops to answer, or to read, keeps nobody beyond his deadline.
func TestDeadlineOfAPromptClient(t *testing.T) {
	for _, stopped := range []string{"at once", "after the greeting"} {
		t.Run(stopped, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				server, _ := limitertest.Redis(t)
				stalled := stopped == "at once"
				_, l := promptLimiter(t, func() (net.Conn, error) {
					if stalled {
						conn, _ := net.Pipe()
						return conn, nil
					}
					conn, err := server.Dial()
					return &stalling{Conn: conn, stalled: &stalled}, err
				})
				if !stalled {
					allow(t, l, "k", 1, true)
					stalled = true
				}
				for i := range 5 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Duration(20+30*i)*time.Millisecond)
					want := min(time.Duration(20+30*i)*time.Millisecond, rl.DefaultTimeout)
					start := time.Now()
					_, err := l.Allow(ctx, "k")
					if took := time.Since(start); !errors.Is(err, rl.ErrUnavailable) || took > want {
						t.Errorf("call %d: %v after %v of %v", i, err, took, want)
					}
					cancel()
				}
				time.Sleep(30 * time.Second) // what go-redis has begun ends
			})
		})
	}
}

// A cancelled call is back at its deadline at the latest, and at once if that is further away than the default.
func TestCancelledCallOfAPromptClient(t *testing.T) {
	for timeout, want := range map[time.Duration]time.Duration{
		0: rl.DefaultTimeout, 50 * time.Millisecond: 50 * time.Millisecond, time.Second: 10 * time.Millisecond,
	} {
		synctest.Test(t, func(t *testing.T) {
			server, _ := limitertest.Redis(t)
			stalled := false
			_, l := promptLimiter(t, func() (net.Conn, error) {
				conn, err := server.Dial()
				return &stalling{Conn: conn, stalled: &stalled}, err
			})
			l.Timeout = timeout
			allow(t, l, "k", 1, true)
			stalled = true
			ctx, cancel := context.WithCancel(t.Context())
			time.AfterFunc(10*time.Millisecond, cancel)
			start := time.Now()
			_, err := l.Allow(ctx, "k")
			if took := time.Since(start); !errors.Is(err, context.Canceled) || took != want {
				t.Errorf("timeout %v: %v after %v, want %v", timeout, err, took, want)
			}
			time.Sleep(30 * time.Second) // what go-redis has begun ends
		})
	}
}

// A stalling connection neither reads nor writes any more.
type stalling struct {
	net.Conn
	stalled *bool
}

func (s *stalling) Write(b []byte) (int, error) {
	if *s.stalled {
		return len(b), nil
	}
	return s.Conn.Write(b)
}
