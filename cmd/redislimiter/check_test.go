package main

import (
	"context"
	"crypto/sha1"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"
)

func TestCheck(t *testing.T) {
	server, _ := newServer(t)
	server.RequireAuth("hidden")
	to := " --redis redis://:hidden@" + server.Addr()
	code, out, errs := invoke(t, "check"+to)
	if code != 0 || errs != "" || strings.Contains(out, "hidden") {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	for _, what := range []string{
		"ok       connection to " + server.Addr(), "fixed window", "sliding window log", "sliding window counter", "token bucket ", "GCRA", "leaky bucket",
		"token bucket + block", "time of a decision",
	} {
		if !strings.Contains(out, what) {
			t.Errorf("no %q in\n%s", what, out)
		}
	}
	if keys := server.Keys(); len(keys) != 0 {
		t.Errorf("it left %q", keys)
	}
	code, out, _ = invoke(t, "check api --json --limit gcra:1/1s:burst=1"+to)
	var got checkup
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || got.Server != server.Addr() {
		t.Fatalf("exit code %d, %v, %s", code, err, out)
	}
	var whats []string
	for _, c := range got.Checks {
		whats = append(whats, c.What)
	}
	if text := strings.Join(whats, ","); !strings.Contains(text, ",GCRA,") || strings.Contains(text, "leaky") {
		t.Errorf("checked %s", text)
	}
}

func TestCheckThatFails(t *testing.T) {
	server, _ := newServer(t)
	server.RequireAuth("right")
	for _, line := range []string{"check", "check --json"} {
		code, out, errs := invoke(t, line+" --redis redis://:hidden@"+server.Addr())
		if code != 1 || !strings.Contains(out, "failed") || !strings.Contains(out, "WRONGPASS") || !strings.Contains(errs, "1 of 1 checks failed") {
			t.Errorf("exit code %d, %s%s", code, out, errs)
		}
	}
}

func TestEvictionAndVersion(t *testing.T) {
	for _, test := range []struct {
		info              map[string]string
		version, eviction string
	}{
		{map[string]string{"redis_version": "7.0.15", "maxmemory_policy": "noeviction", "maxmemory": "100"}, "ok Redis 7.0.15", "ok none"},
		{map[string]string{"redis_version": "6.2.1", "maxmemory_policy": "allkeys-lru", "maxmemory": "100"}, "warning Redis 6.2.1", "warning maxmemory-policy allkeys-lru"},
		{map[string]string{"redis_version": "7.2.4", "valkey_version": "8.1.1", "maxmemory_policy": "volatile-ttl", "maxmemory": "0"}, "ok Valkey 8.1.1", "ok none, memory"},
		{nil, "warning unknown", "warning unknown"},
	} {
		var r checkup
		r.version("a", test.info)
		r.eviction("a", test.info)
		for n, want := range []string{test.version, test.eviction} {
			if got := r.Checks[n].Status + " " + r.Checks[n].Detail; !strings.HasPrefix(got, want) {
				t.Errorf("%v: %s, want %s", test.info, got, want)
			}
		}
	}
}

func TestScripts(t *testing.T) {
	code, out, errs := invoke(t, "scripts --json --limit sliding_window_log:5/1m --limit gcra:1/1s:burst=1")
	var got listing
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || errs != "" || len(got.Scripts) != 3 {
		t.Fatalf("exit code %d, %v, %s%s", code, err, out, errs)
	}
	for _, s := range got.Scripts {
		args := "scripts --only " + s.Use
		if s.Use != "reset" {
			args += " --limit sliding_window_log:9/1d --limit gcra:7/1m:burst=3" // the rates are no part of it
		}
		code, out, _ := invoke(t, args)
		if sum := fmt.Sprintf("%x", sha1.Sum([]byte(out))); code != 0 || sum != s.SHA || out != s.Source {
			t.Errorf("%s: exit code %d, sum %s, want %s", s.Use, code, sum, s.SHA)
		}
	}
	code, out, _ = invoke(t, "scripts")
	if code != 0 || strings.Count(out, "-- sha1 ") < 10 || !strings.Contains(out, "-- decide gcra:10/1s:burst=10\n") {
		t.Errorf("exit code %d, %s", code, out)
	}
}

// What was loaded is what the library asks for.
func TestScriptsAreLoaded(t *testing.T) {
	server, client := newServer(t)
	text := flags(everything)
	code, out, errs := invoke(t, "scripts --load --redis redis://"+server.Addr()+text)
	if code != 0 || !strings.HasSuffix(out, "loaded on "+server.Addr()+"\n") {
		t.Fatalf("exit code %d, %s%s", code, out, errs)
	}
	client.AddHook(noEval{t})
	l := newLimiter(t, client, "api", limitsOf(t, everything...)...)
	r := charge(t, l, "k", 1)
	if err := r.Refund(t.Context(), 1); err != nil {
		t.Error(err)
	}
	if err := l.Reset(t.Context(), "k"); err != nil {
		t.Error(err)
	}
}

// noEval notices the EVAL by which the library loads a script that is missing.
type noEval struct{ t *testing.T }

func (noEval) DialHook(next redis.DialHook) redis.DialHook { return next }

func (n noEval) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "eval" {
			n.t.Errorf("a script had to be loaded: %.60s", cmd.String())
		}
		return next(ctx, cmd)
	}
}

func (noEval) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
