package redislimiter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A flaky client does what a test tells it before, or instead of, the real one.
type flaky struct {
	redis.UniversalClient
	sent   atomic.Int64
	well   atomic.Bool                                                  // forget about the two below
	before func(ctx context.Context, call int64, cmd redis.Cmder) error // an error keeps the command from being sent
	after  func(call int64) error                                       // an error replaces the reply
}

func (f *flaky) Process(ctx context.Context, cmd redis.Cmder) error {
	call := f.sent.Add(1)
	if f.before != nil && !f.well.Load() {
		if err := f.before(ctx, call, cmd); err != nil {
			cmd.SetErr(err)
			return err
		}
	}
	err := f.UniversalClient.Process(ctx, cmd)
	if f.after != nil && !f.well.Load() {
		if lost := f.after(call); lost != nil {
			cmd.SetErr(lost)
			return lost
		}
	}
	return err
}

type serverError string

func (e serverError) Error() string { return string(e) }
func (e serverError) RedisError()   {}

// flakyLimiter has a limit of 10 per hour, and a script that is loaded.
func flakyLimiter(t *testing.T) (*flaky, *rl.Limiter) {
	t.Helper()
	_, client := limitertest.Redis(t)
	f := &flaky{UniversalClient: client}
	l, err := rl.New(f, "test", rl.SlidingWindowLog(10, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	allow(t, l, "warm", 1, true)
	f.sent.Store(0)
	return f, l
}

func charged(t *testing.T, f *flaky, l *rl.Limiter) int {
	t.Helper()
	f.well.Store(true)
	return 10 - allowAny(t, l, "k", 0).Remaining
}

func allowAny(t *testing.T, l rl.Allower, key string, n int) rl.Result {
	t.Helper()
	r, err := l.AllowN(t.Context(), key, n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestLostReplyIsChargedOnceAndUncertain(t *testing.T) {
	for _, lost := range []error{io.EOF, io.ErrUnexpectedEOF, &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}} {
		synctest.Test(t, func(t *testing.T) {
			f, l := flakyLimiter(t)
			f.after = func(int64) error { return lost }
			r, err := l.Allow(t.Context(), "k")
			if !errors.Is(err, rl.ErrUncertain) || !errors.Is(err, rl.ErrUnavailable) || !errors.Is(err, lost) || r.Allowed {
				t.Fatalf("%v: got %+v, %v", lost, r, err)
			}
			if f.sent.Load() != 1 {
				t.Fatalf("%v: sent %d times", lost, f.sent.Load())
			}
			if n := charged(t, f, l); n != 1 {
				t.Fatalf("%v: charged %d", lost, n)
			}
		})
	}
}

// After a restart the pool is full of dead connections. Each must take a PING
// down with it, and not a charge.
func TestDeadConnectionsCostOneCall(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := flakyLimiter(t)
		var dead atomic.Int64
		dead.Store(30)
		var pings atomic.Int64
		f.before = func(_ context.Context, _ int64, cmd redis.Cmder) error {
			if cmd.Name() == "ping" {
				pings.Add(1)
			} else {
				cmd.Args() // as go-redis does to write it
			}
			if dead.Add(-1) >= 0 {
				return io.EOF
			}
			return nil
		}
		if _, err := l.Allow(t.Context(), "k"); !errors.Is(err, rl.ErrUncertain) {
			t.Fatal(err)
		}
		for range 5 {
			allow(t, l, "k", 1, true)
		}
		if pings.Load() != 30 {
			t.Fatalf("%d PINGs, want 29 that fail and one that does not", pings.Load())
		}
	})
}

func TestTransientErrorsAreTriedAgain(t *testing.T) {
	dial := &net.OpError{Op: "dial", Err: errors.New("connection refused")}
	for _, err := range []error{
		serverError("LOADING Redis is loading the dataset in memory"),
		serverError("READONLY You can't write against a read only replica."),
		serverError("MASTERDOWN Link with MASTER is down"),
		serverError("CLUSTERDOWN The cluster is down"),
		serverError("TRYAGAIN Multiple keys request during rehashing of slot"),
		serverError("NOREPLICAS Not enough good replicas to write."),
		serverError("BUSY Redis is busy running a script."),
		serverError("ERR max number of clients reached"),
		serverError("ERR Error running script: @user_script:1: -READONLY You can't write against a read only replica."),
		dial, redis.ErrPoolTimeout,
		fmt.Errorf("all sentinels are unreachable: %w", context.DeadlineExceeded),
	} {
		synctest.Test(t, func(t *testing.T) {
			f, l := flakyLimiter(t)
			f.before = func(_ context.Context, call int64, _ redis.Cmder) error {
				if call <= 3 {
					return err
				}
				return nil
			}
			if r, got := l.Allow(t.Context(), "k"); got != nil || !r.Allowed || f.sent.Load() != 4 {
				t.Fatalf("%v: %+v, %v after %d tries", err, r, got, f.sent.Load())
			}
			if n := charged(t, f, l); n != 1 {
				t.Fatalf("%v: charged %d", err, n)
			}
		})
	}
}

func TestTransientErrorThatStaysEndsAtTheDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := flakyLimiter(t)
		f.before = func(context.Context, int64, redis.Cmder) error { return serverError("LOADING Redis is loading") }
		start := time.Now()
		_, err := l.Allow(t.Context(), "k")
		if took := time.Since(start); took > rl.DefaultTimeout {
			t.Errorf("took %v", took)
		}
		if !errors.Is(err, rl.ErrUnavailable) || errors.Is(err, rl.ErrUncertain) || errors.Is(err, rl.ErrMisconfigured) {
			t.Fatalf("got %v", err)
		}
		if n := f.sent.Load(); n < 4 || n > 12 {
			t.Fatalf("tried %d times in 100 ms", n)
		}
	})
}

func TestConfigurationFaultsAreToldApart(t *testing.T) {
	for _, text := range []string{
		"NOAUTH Authentication required.", "WRONGPASS invalid username-password pair or user is disabled.",
		"NOPERM User limiter has no permissions to run the 'evalsha' command",
		"ERR The user executing the script can't run this command or subcommand script: f_1, on @user_script:1.",
		"OOM command not allowed when used memory > 'maxmemory'.",
		"WRONGTYPE Operation against a key holding the wrong kind of value",
	} {
		synctest.Test(t, func(t *testing.T) {
			f, l := flakyLimiter(t)
			f.before = func(context.Context, int64, redis.Cmder) error { return serverError(text) }
			_, err := l.Allow(t.Context(), "k")
			// What stopped the script in its middle may have come after a charge.
			uncertain := strings.Contains(text, "user_script")
			if !errors.Is(err, rl.ErrMisconfigured) || !errors.Is(err, rl.ErrUnavailable) || errors.Is(err, rl.ErrUncertain) != uncertain {
				t.Fatalf("%s: got %v", text, err)
			}
			if f.sent.Load() != 1 {
				t.Fatalf("%s: sent %d times", text, f.sent.Load())
			}
		})
	}
}

func TestScriptIsLoadedWhereItIsMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := flakyLimiter(t)
		if err := f.ScriptFlush(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
		f.sent.Store(0)
		allow(t, l, "k", 1, true)
		if f.sent.Load() != 2 {
			t.Fatalf("%d commands to repair", f.sent.Load())
		}
		allow(t, l, "k", 1, true)
		if f.sent.Load() != 3 {
			t.Fatalf("%d commands with the call after", f.sent.Load())
		}
		if n := charged(t, f, l); n != 2 {
			t.Fatalf("charged %d", n)
		}
	})
}

func TestServerThatNeverHasTheScript(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := flakyLimiter(t)
		f.before = func(context.Context, int64, redis.Cmder) error {
			return serverError("NOSCRIPT No matching script. Please use EVAL.")
		}
		_, err := l.Allow(t.Context(), "k")
		if !errors.Is(err, rl.ErrUnavailable) || errors.Is(err, rl.ErrUncertain) || f.sent.Load() != 2 {
			t.Fatalf("got %v after %d commands", err, f.sent.Load())
		}
	})
}

// stall lets calls hang until the test ends, as go-redis does when a server
// does not answer, whatever the context says.
func stall(t *testing.T) (func(context.Context, int64, redis.Cmder) error, func()) {
	t.Helper()
	release := make(chan struct{})
	return func(context.Context, int64, redis.Cmder) error {
		<-release
		return nil
	}, func() { close(release) }
}

func TestDeadlineHoldsWhateverTheClientDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := flakyLimiter(t)
		hang, release := stall(t)
		f.before = hang
		for name, test := range map[string]struct {
			timeout, deadline, want time.Duration
		}{
			"default timeout":      {0, 0, rl.DefaultTimeout},
			"own timeout":          {25 * time.Millisecond, 0, 25 * time.Millisecond},
			"an earlier deadline":  {25 * time.Millisecond, 10 * time.Millisecond, 10 * time.Millisecond},
			"a deadline too late":  {25 * time.Millisecond, time.Second, 25 * time.Millisecond},
			"a deadline that past": {25 * time.Millisecond, -time.Second, 0},
		} {
			l.Timeout = test.timeout
			ctx, cancel := t.Context(), context.CancelFunc(func() {})
			if test.deadline != 0 {
				ctx, cancel = context.WithTimeout(ctx, test.deadline)
			}
			start := time.Now()
			r, err := l.Allow(ctx, "k")
			cancel()
			if took := time.Since(start); took != test.want || r.Allowed || err == nil {
				t.Errorf("%s: %+v, %v after %v, want %v", name, r, err, took, test.want)
			}
			// The hanging call never wrote its command: it is certain
			// that nothing was charged.
			if errors.Is(err, rl.ErrUncertain) {
				t.Errorf("%s: %v", name, err)
			}
		}
		release()
		synctest.Wait()
		// Those that were let go were left: they must not charge now.
		if n := charged(t, f, l); n != 0 {
			t.Fatalf("charged %d after the callers had left", n)
		}
	})
}

func TestLateReplyIsUncertain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := flakyLimiter(t)
		l.Timeout = 25 * time.Millisecond
		f.after = func(int64) error {
			time.Sleep(400 * time.Millisecond)
			return nil
		}
		start := time.Now()
		_, err := l.Allow(t.Context(), "k")
		if took := time.Since(start); took != 25*time.Millisecond || !errors.Is(err, rl.ErrUncertain) {
			t.Fatalf("%v after %v", err, took)
		}
		time.Sleep(time.Second)
		if n := charged(t, f, l); n != 1 || f.sent.Load() != 2 {
			t.Fatalf("charged %d in %d commands", n, f.sent.Load())
		}
	})
}

func TestCancelledCaller(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := flakyLimiter(t)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := l.Allow(ctx, "k"); err != context.Canceled || f.sent.Load() != 0 {
			t.Fatalf("before: %v, %d sent", err, f.sent.Load())
		}
		ctx, cancel = context.WithCancel(t.Context())
		f.after = func(int64) error {
			cancel()
			time.Sleep(time.Second)
			return nil
		}
		start := time.Now()
		r, err := l.Allow(ctx, "k")
		if err != context.Canceled || r.Allowed || time.Since(start) != 0 {
			t.Fatalf("during: %+v, %v after %v", r, err, time.Since(start))
		}
		time.Sleep(2 * time.Second)
	})
}

func TestStragglersAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := flakyLimiter(t)
		hang, release := stall(t)
		f.before = hang
		for range 2000 {
			go l.Allow(t.Context(), "k")
		}
		time.Sleep(time.Second) // all have given up
		if n := f.sent.Load(); n > 512 {
			t.Errorf("%d calls on their way", n)
		}
		start := time.Now()
		if _, err := l.Allow(t.Context(), "k"); !errors.Is(err, rl.ErrUnavailable) || time.Since(start) > rl.DefaultTimeout {
			t.Errorf("%v after %v", err, time.Since(start))
		}
		release()
		synctest.Wait()
		f.well.Store(true)
		allow(t, l, "k", 1, true)
	})
}

func TestErrorsTellNoKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := flakyLimiter(t)
		f.before = func(context.Context, int64, redis.Cmder) error { return io.EOF }
		_, err := l.Allow(t.Context(), "secret")
		_, never := l.AllowN(t.Context(), "secret", 11)
		_, negative := l.AllowN(t.Context(), "secret", -1)
		for _, err := range []error{err, never, negative} {
			if strings.Contains(err.Error(), "secret") || !strings.HasPrefix(err.Error(), "redislimiter: test: ") {
				t.Errorf("%v", err)
			}
		}
	})
}

func TestWrongTypeIsAnError(t *testing.T) {
	for _, a := range limitertest.Algorithms() {
		synctest.Test(t, func(t *testing.T) {
			_, client := limitertest.Redis(t)
			l, err := rl.New(client, "test", a.Make(3, time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			allow(t, l, "k", 1, true)
			key := client.Keys(t.Context(), "*").Val()[0]
			client.Del(t.Context(), key)
			client.LPush(t.Context(), key, "x")
			if r, err := l.Allow(t.Context(), "k"); !errors.Is(err, rl.ErrMisconfigured) || r.Allowed {
				t.Fatalf("%s: %+v, %v", a.Name, r, err)
			}
		})
	}
}
