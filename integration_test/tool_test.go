package integration_test

import (
	"context"
	"encoding/json"
	"errors"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// The limits of these tests, as the tool reads them and as New takes them.
var (
	toolLimits = []string{
		"--limit=fixed_window:10/1h", "--limit=sliding_window_log:12/1h", "--limit=sliding_window_counter:20/1h", "--limit=token_bucket:3/1h:burst=9",
		"--limit=gcra:60/1h:burst=30", "--limit=leaky_bucket:10/1h:queue=8", "--limit=block_after:3/1h:block=15m",
	}
	sameLimits = []rl.Limit{
		rl.FixedWindow(10, time.Hour), rl.SlidingWindowLog(12, time.Hour), rl.SlidingWindowCounter(20, time.Hour), rl.TokenBucket(3, time.Hour, 9),
		rl.GCRA(60, time.Hour, 30), rl.LeakyBucket(10, time.Hour, 8), rl.BlockAfter(3, time.Hour, 15*time.Minute),
	}
)

// A tool is the program, built from the parent module as it stands.
type tool string

func buildTool(t *testing.T) tool {
	t.Helper()
	program := filepath.Join(t.TempDir(), "redislimiter")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./cmd/redislimiter")
	build.Dir = ".."
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return tool(program)
}

// run returns what the program prints, and its exit code.
func (p tool) run(t *testing.T, url string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	var out, errs strings.Builder
	cmd := exec.CommandContext(t.Context(), string(p), append([]string{"--timeout=30s"}, args...)...)
	cmd.Env = append(cmd.Environ(), "REDIS_URL="+url)
	cmd.Stdout, cmd.Stderr = &out, &errs
	exit := (*exec.ExitError)(nil)
	if err := cmd.Run(); err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

func TestToolOnRealServers(t *testing.T) {
	program := buildTool(t)
	onEachShared(t, func(t *testing.T, rdb *redis.Client) {
		url := "redis://" + rdb.Options().Addr
		l := newLimiter(t, rdb, sameLimits...)
		allow(t, l, "a{b}\n", 3, true)
		before := snapshot(t, rdb, l.Name())
		out, errs, code := program.run(t, url, append([]string{"inspect", "--json", l.Name(), "a{b}\n"}, toolLimits...)...)
		var found struct {
			Decision struct{ Remaining int }
			Stored   []struct {
				Problem string
				TTL     float64 `json:"ttl_seconds"`
				Rules   []struct{ Limit, State string }
			}
		}
		if err := json.Unmarshal([]byte(out), &found); err != nil || code != 0 || errs != "" {
			t.Fatalf("exit code %d, %v, %s%s", code, err, out, errs)
		}
		rules := 0
		for _, key := range found.Stored {
			rules += len(key.Rules)
			if key.Problem != "" || key.TTL <= 0 {
				t.Errorf("%+v", key)
			}
			for _, r := range key.Rules {
				if r.Limit == "" || !strings.HasPrefix(r.State, "3 ") && !strings.HasPrefix(r.State, "no refusals") {
					t.Errorf("%+v", r)
				}
			}
		}
		if rules != len(toolLimits) || found.Decision.Remaining != remaining(t, l, "a{b}\n") {
			t.Errorf("%d rules, %d remain: %s", rules, found.Decision.Remaining, out)
		}
		if after := snapshot(t, rdb, l.Name()); !slices.Equal(after, before) || len(after) != 2 {
			t.Errorf("a look has changed %q into %q", before, after)
		}
		if out, errs, code := program.run(t, url, "reset", l.Name(), "a{b}\n"); code != 0 || strings.Count(out, "deleted") != 2 {
			t.Errorf("reset: exit code %d, %s%s", code, out, errs)
		}
		if r := allow(t, l, "a{b}\n", 0, true); r.ResetAfter != 0 {
			t.Errorf("after reset: %+v", r)
		}
	})
}

// snapshot is every key of a limiter with what it holds.
func snapshot(t *testing.T, rdb *redis.Client, name string) []string {
	t.Helper()
	keys, err := rdb.Keys(t.Context(), "rl:"+name+":*").Result()
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(keys)
	for i, key := range keys {
		value, err := rdb.Dump(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		expires, err := rdb.PExpireTime(t.Context(), key).Result()
		if err != nil {
			t.Fatal(err)
		}
		keys[i] += " " + value + " " + expires.String()
	}
	return keys
}

func TestToolChecks(t *testing.T) {
	program := buildTool(t)
	onEachShared(t, func(t *testing.T, rdb *redis.Client) {
		url := "redis://" + rdb.Options().Addr
		out, errs, code := program.run(t, url, "check", newName())
		if code != 0 || errs != "" || strings.Contains(out, "failed") || strings.Contains(out, "unknown") || strings.Count(out, "charged and deleted") != 7 {
			t.Errorf("exit code %d, %s%s", code, out, errs)
		}
	})
}

// What the user may not do is found, and named.
func TestToolFindsWhatTheACLLacks(t *testing.T) {
	program := buildTool(t)
	onEach(t, func(t *testing.T, kind servers.Kind) {
		admin := dial(t, servers.Start(t, kind).Addr)
		permit(t, admin, []string{"evalsha", "eval", "script|load", "del", "ping", "time", "hmget", "hset", "pexpire"})
		url := "redis://" + aclUser + ":" + aclPassword + "@" + admin.Options().Addr
		out, errs, code := program.run(t, url, "check")
		if code != 1 || !strings.Contains(errs, "checks failed") || strings.Contains(out+errs, aclPassword) {
			t.Errorf("exit code %d, %s%s", code, out, errs)
		}
		for algorithm, want := range map[string]string{"token bucket": "ok", "fixed window": "ok", "sliding window log": "failed", "GCRA": "failed"} {
			if !hasLine(out, want, algorithm) {
				t.Errorf("%s is not %s in\n%s", algorithm, want, out)
			}
		}
	})
}

func hasLine(text, status, what string) bool {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, status+" "); ok && strings.HasPrefix(strings.TrimSpace(rest), what+" ") {
			return true
		}
	}
	return false
}

func TestToolLoadsScripts(t *testing.T) {
	program := buildTool(t)
	onEach(t, func(t *testing.T, kind servers.Kind) {
		rdb := dial(t, servers.Start(t, kind).Addr)
		out, errs, code := program.run(t, "redis://"+rdb.Options().Addr, append([]string{"scripts", "--json", "--load"}, toolLimits...)...)
		var loaded struct {
			Scripts []struct{ SHA1 string }
		}
		if err := json.Unmarshal([]byte(out), &loaded); err != nil || code != 0 || len(loaded.Scripts) != 3 {
			t.Fatalf("exit code %d, %v, %s%s", code, err, out, errs)
		}
		for _, s := range loaded.Scripts {
			if there, err := rdb.ScriptExists(context.Background(), s.SHA1).Result(); err != nil || !there[0] {
				t.Errorf("%s is not loaded: %v", s.SHA1, err)
			}
		}
	})
}
