package redislimiter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

func TestCheckLoadsTheScriptAndLeavesNothing(t *testing.T) {
	for _, a := range limitertest.Algorithms() {
		synctest.Test(t, func(t *testing.T) {
			server, client := limitertest.Redis(t)
			f := &flaky{UniversalClient: client}
			l, err := rl.New(f, "test", a.Make(3, time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			if keys := server.Keys(); len(keys) != 0 {
				t.Fatalf("Check left %q", keys)
			}
			f.sent.Store(0)
			allow(t, l, "k", 1, true)
			if f.sent.Load() != 1 {
				t.Fatalf("the first request took %d commands", f.sent.Load())
			}
		})
	}
}

func TestCheckReports(t *testing.T) {
	for command, reply := range map[string]string{
		"script":  "NOPERM User limiter has no permissions to run the 'script|load' command",
		"evalsha": "ERR The user executing the script can't run this command or subcommand",
	} {
		synctest.Test(t, func(t *testing.T) {
			f, l := flakyLimiter(t)
			f.before = func(_ context.Context, _ int64, cmd redis.Cmder) error {
				if cmd.Name() == command {
					return serverError(reply)
				}
				return nil
			}
			err := l.Check(t.Context())
			if !errors.Is(err, rl.ErrMisconfigured) || !strings.Contains(err.Error(), reply) {
				t.Fatalf("%s refused, Check says %v", command, err)
			}
		})
	}
}

func TestCheckReturnsWhateverTheClientDoes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := flakyLimiter(t)
		hang, release := stall(t)
		defer release()
		f.before = hang
		start := time.Now()
		if err := l.Check(t.Context()); !errors.Is(err, rl.ErrUnavailable) || time.Since(start) != 5*time.Second {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		ctx, cancel := context.WithTimeout(t.Context(), 30*time.Millisecond)
		defer cancel()
		start = time.Now()
		if err := l.Check(ctx); !errors.Is(err, rl.ErrUnavailable) || time.Since(start) != 30*time.Millisecond {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
	})
}
