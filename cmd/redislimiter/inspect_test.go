package main

import (
	"context"
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/limitspec"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// everything is one limit of each algorithm, written down.
var everything = []string{
	"fixed_window:10/1m", "sliding_window_log:12/1h", "sliding_window_counter:20/1m", "token_bucket:3/7s:burst=9", "gcra:60/1m:burst=30",
	"leaky_bucket:10/1s:queue=8", "block_after:3/1m:block=15m",
}

func flags(specs []string) string { return " --limit " + strings.Join(specs, " --limit ") }

func limitsOf(t *testing.T, specs ...string) []rl.Limit {
	t.Helper()
	var limits []rl.Limit
	for _, text := range specs {
		spec, err := limitspec.Parse(text)
		if err != nil {
			t.Fatal(err)
		}
		limits = append(limits, spec.Limit)
	}
	return limits
}

func TestInspectInWords(t *testing.T) {
	server, client := newServer(t)
	t.Setenv("REDIS_URL", "redis://"+server.Addr())
	all := newLimiter(t, client, "api", limitsOf(t, everything...)...)
	charge(t, all, "user:42", 3)
	server.SetTime(noon.Add(2 * time.Second))
	charge(t, all, "user:42", 5)
	charge(t, all, "user:42", 7) // refused
	charge(t, newLimiter(t, client, "login", limitsOf(t, "gcra:60/1m:burst=2")...), "a{b}\n", 2)
	for name, line := range map[string]string{
		"unknown.txt":  "inspect api user:42",
		"known.txt":    "inspect api user:42" + flags(everything),
		"known.json":   "inspect --json api user:42" + flags(everything),
		"other.txt":    "inspect api user:42" + flags([]string{"fixed_window:5/1m"}),
		"nothing.txt":  "inspect api nobody --limit fixed_window:5/1m",
		"nothing.json": "inspect --json api nobody",
	} {
		code, out, errs := invoke(t, line)
		if code != 0 || errs != "" {
			t.Errorf("%s: exit code %d, %s", line, code, errs)
		}
		golden(t, name, out)
	}
	code, out, errs := invoke(t, "inspect login --limit gcra:60/1m:burst=2", "a{b}\n")
	if code != 0 || errs != "" {
		t.Errorf("exit code %d, %s", code, errs)
	}
	golden(t, "gcra.txt", out)
}

// What the command says of a decision is what the library would decide, for
// each algorithm by itself and after a change of its rate.
func TestInspectAgreesWithTheLibrary(t *testing.T) {
	for _, text := range everything[:6] {
		server, client := newServer(t)
		l := newLimiter(t, client, "api", limitsOf(t, text)...)
		for n := range 4 {
			charge(t, l, "k", n*2)
			server.SetTime(noon.Add(time.Duration(n) * 137 * time.Millisecond))
			for _, given := range []string{text, strings.Replace(text, "/", "1/", 1)} {
				want := charge(t, newLimiter(t, client, "api", limitsOf(t, given)...), "k", 0)
				code, out, errs := invoke(t, "inspect --json api k --redis redis://"+server.Addr()+" --limit "+given)
				var got struct{ Decision map[string]any }
				if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || errs != "" {
					t.Fatalf("exit code %d, %v, %s%s", code, err, out, errs)
				}
				d := got.Decision
				if d["allowed"] != want.Allowed || d["remaining"] != float64(want.Remaining) ||
					!same(d["retry_after_seconds"], want.RetryAfter) || !same(d["reset_after_seconds"], want.ResetAfter) {
					t.Errorf("%s: the command says %v, the library %+v", given, d, want)
				}
			}
		}
	}
}

func same(seconds any, d time.Duration) bool {
	s, ok := seconds.(float64)
	return ok && math.Abs(s-d.Seconds()) < 1e-9
}

func TestInspectWritesNothing(t *testing.T) {
	server, client := newServer(t)
	l := newLimiter(t, client, "api", limitsOf(t, everything...)...)
	charge(t, l, "k", 3)
	before := server.Dump()
	for _, line := range []string{"inspect api k", "inspect api k" + flags(everything), "inspect api nobody" + flags(everything), "inspect api k --limit gcra:1/1s:burst=1"} {
		if code, _, errs := invoke(t, line+" --redis redis://"+server.Addr()); code != 0 {
			t.Errorf("%s: exit code %d, %s", line, code, errs)
		}
	}
	if after := server.Dump(); after != before || before == "" {
		t.Errorf("before\n%s\nafter\n%s", before, after)
	}
}

func TestInspectFindsProblems(t *testing.T) {
	server, client := newServer(t)
	ctx := context.Background()
	client.Set(ctx, "rl:api:h:{string}", "x", 0)
	client.Set(ctx, "rl:api:gcra0:{text}", "x", 0)
	client.HSet(ctx, "rl:api:h:{stranger}", "name", "x")
	client.HSet(ctx, "rl:api:h:{immortal}", "10", strconv.FormatInt(noon.UnixMicro(), 10)+":3:0")
	client.ZAdd(ctx, "rl:api:h:{set}")
	for key, want := range map[string]string{
		"string": "PROBLEM: this is not a limiter's", "text": "PROBLEM: this is not a limiter's", "stranger": "PROBLEM: this is not a limiter's",
		"immortal": "PROBLEM: it never expires",
	} {
		if code, out, errs := invoke(t, "inspect api "+key+" --redis redis://"+server.Addr()); code != 0 || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, %s%s", key, code, out, errs)
		}
	}
	// The library cannot decide on such a key, and the command says so.
	code, out, errs := invoke(t, "inspect api string --limit fixed_window:1/1s --redis redis://"+server.Addr())
	if code != 1 || !strings.Contains(out, "PROBLEM") || !strings.Contains(errs, "WRONGTYPE") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
}

func TestReset(t *testing.T) {
	server, client := newServer(t)
	l := newLimiter(t, client, "api", limitsOf(t, everything...)...)
	alone := newLimiter(t, client, "api", limitsOf(t, "gcra:1/1h:burst=1")...)
	for _, key := range []string{"{k}", "other"} {
		charge(t, l, key, 3)
		charge(t, alone, key, 1)
	}
	to := " --redis redis://" + server.Addr()
	code, out, errs := invoke(t, "reset api {k}"+to)
	if code != 0 || errs != "" || out != "deleted rl:api:h:{%7Bk%7D}\ndeleted rl:api:gcra0:{%7Bk%7D}\ndeleted rl:api:log0:{%7Bk%7D}\n" {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	if r := charge(t, l, "{k}", 0); r.ResetAfter != 0 {
		t.Errorf("it is not as if never seen: %+v", r)
	}
	if r := charge(t, alone, "other", 0); r.Allowed {
		t.Errorf("the other key was reset as well: %+v", r)
	}
	if code, out, _ := invoke(t, "reset api {k}"+to); code != 0 || out != "api, key \"{k}\": nothing was stored\n" {
		t.Errorf("exit code %d, %s", code, out)
	}
	if code, out, _ := invoke(t, "reset --json api {k}"+to); code != 0 || out != "{\n  \"name\": \"api\",\n  \"key\": \"{k}\",\n  \"deleted\": []\n}\n" {
		t.Errorf("exit code %d, %s", code, out)
	}
	if code, _, errs := invoke(t, "reset"+to+" api --", "--odd key"); code != 0 {
		t.Errorf("a key that begins with a dash: exit code %d, %s", code, errs)
	}
}
