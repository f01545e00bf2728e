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
	for command, c := range map[string]struct{ reply, want string }{
		"script":  {"NOPERM User limiter has no permissions to run the 'script|load' command", "SCRIPT|LOAD (needed: +script|load)"},
		"evalsha": {"ERR The user executing the script can't run this command or subcommand", "can't run this command"},
	} {
		synctest.Test(t, func(t *testing.T) {
			f, l := flakyLimiter(t)
			f.before = func(_ context.Context, _ int64, cmd redis.Cmder) error {
				if cmd.Name() == command {
					return serverError(c.reply)
				}
				return nil
			}
			err := l.Check(t.Context())
			if !errors.Is(err, rl.ErrMisconfigured) || !strings.Contains(err.Error(), c.want) {
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

// helloClient answers HELLO with what a test says.
type helloClient struct {
	redis.UniversalClient
	hello map[string]any // nil: the command is unknown
}

func (c *helloClient) Process(ctx context.Context, cmd redis.Cmder) error {
	hello, ok := cmd.(*redis.MapStringInterfaceCmd)
	if !ok || cmd.Name() != "hello" {
		return c.UniversalClient.Process(ctx, cmd)
	}
	if c.hello == nil {
		err := serverError("ERR unknown command 'hello', with args beginning with: ")
		cmd.SetErr(err)
		return err
	}
	hello.SetVal(c.hello)
	return nil
}

func TestCheckNamesAServerThatIsTooOldOrAReplica(t *testing.T) {
	for _, c := range []struct {
		hello map[string]any
		want  []string // in the error; none: all is well
	}{
		{nil, []string{"older than Redis 6", "7.0"}},
		{map[string]any{"server": "redis", "version": "6.2.14", "role": "master"}, []string{"6.2.14", "too old", "7.0"}},
		{map[string]any{"server": "redis", "version": "7.0.0", "role": "master"}, nil},
		{map[string]any{"server": "redis", "version": "10.0.0", "role": "master"}, nil},
		{map[string]any{"server": "valkey", "version": "8.1.1", "role": "master"}, nil},
		{map[string]any{"server": "another", "version": "1.2", "role": "master"}, nil},
		{map[string]any{"server": "redis", "version": "8.0.2", "role": "replica"}, []string{"read-only replica"}},
		{map[string]any{"server": "redis", "version": "7.0.0", "role": "slave"}, []string{"read-only replica"}},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, client := limitertest.Redis(t)
			l, err := rl.New(&helloClient{client, c.hello}, "test", rl.FixedWindow(3, time.Minute))
			if err != nil {
				t.Fatal(err)
			}
			err = l.Check(t.Context())
			if len(c.want) == 0 && err != nil {
				t.Errorf("%v: %v", c.hello, err)
			}
			for _, want := range c.want {
				if !errors.Is(err, rl.ErrMisconfigured) || !strings.Contains(err.Error(), want) {
					t.Errorf("%v: Check says %v, want an ErrMisconfigured with %q", c.hello, err, want)
				}
			}
		})
	}
}
