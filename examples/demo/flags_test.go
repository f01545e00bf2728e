package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

func TestWrongFlags(t *testing.T) {
	for _, test := range []struct{ args, names string }{
		{"-rate 0", "-rate"},
		{"-rate x", "-rate"},
		{"-per 0s", "-per"},
		{"-per -1s", "-per"},
		{"-per 1ns", "per"},
		{"-per 200000h", "per"},
		{"-burst 0", "-burst"},
		{"-burst 5 -algorithm log", "-burst"},
		{"-algorithm tokens", "-algorithm"},
		{"-algorithm leaky -rate 1 -burst 5", "-burst"},
		{"-rate 2000000 -algorithm log", "-rate"},
		{"-on-failure panic", "-on-failure"},
		{"-redis http://localhost", "-redis"},
		{"-redis redis://:hidden@local%zzhost", "-redis"},
		{"-for 1s", "-for"},
		{"-timeout 0s", "-timeout"},
		{"-for -1s", "-for"},
		{"-for ten", "-for"},
		{"-addr 8080", "-addr"},
		{"-role both", "-role"},
		{"-role instance", "-redis"},
		{"-role edge", "-instances"},
		{"-role edge -instances https://app:1", "-instances"},
		{"-role edge -instances http://app:1 -for 5s", "-for"},
		{"-trust everybody", "-trust"},
		{"-health nowhere", "-health"},
		{"-unknown", "-unknown"},
		{"open", "open"},
	} {
		var stdout, stderr strings.Builder
		code := run(t.Context(), strings.Fields(test.args), &stdout, &stderr)
		if code != 2 || !strings.Contains(stderr.String(), test.names) || strings.Count(stderr.String(), "\n") != 1 {
			t.Errorf("%s: exit code %d, %q, want 2 and one line with %s", test.args, code, stderr.String(), test.names)
		}
		if stdout.Len() > 0 || strings.Contains(stderr.String(), "hidden") {
			t.Errorf("%s: printed %q, %q", test.args, stdout.String(), stderr.String())
		}
	}
}

// Flags win over the environment, and it over the defaults.
func TestEnvironment(t *testing.T) {
	t.Setenv("DEMO_RATE", "7")
	t.Setenv("DEMO_PER", "3s")
	t.Setenv("DEMO_ON_FAILURE", "closed")
	cfg, err := parse([]string{"-per", "2s"}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	if s := cfg.settings; s.Rate != 7 || s.Per != span(2*time.Second) || s.Burst != 20 || s.OnFailure != "closed" {
		t.Errorf("%+v", s)
	}
	t.Setenv("DEMO_RATE", "many")
	if _, err := parse(nil, io.Discard); err == nil || !strings.Contains(err.Error(), "DEMO_RATE") {
		t.Errorf("error %v, want one that names DEMO_RATE", err)
	}
}

// What cannot be used is no wrong flag, but fails with its name as well.
func TestUnusable(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ args, names string }{
		{"-redis redis://127.0.0.1:1", "refused"},
		{"-addr 192.0.2.1:80", "192.0.2.1"}, // an address of no machine
	} {
		var stdout, stderr strings.Builder
		code := run(t.Context(), strings.Fields(test.args), &stdout, &stderr)
		if code != 1 || !strings.Contains(stderr.String(), test.names) || !strings.Contains(stderr.String(), strings.Fields(test.args)[0]) {
			t.Errorf("%s: exit code %d, %q, want 1 and %s", test.args, code, stderr.String(), test.names)
		}
	}
}

func TestHelp(t *testing.T) {
	var stdout, stderr strings.Builder
	if code := run(t.Context(), []string{"-h"}, &stdout, &stderr); code != 0 || !strings.Contains(stderr.String(), "-on-failure") {
		t.Errorf("exit code %d, %q", code, stderr.String())
	}
}

func TestAtMost(t *testing.T) {
	bucket := redislimiter.TokenBucket(10, time.Second, 20)
	log := redislimiter.SlidingWindowLog(10, time.Second)
	window := redislimiter.FixedWindow(10, time.Second)
	for _, test := range []struct {
		limit redislimiter.Limit
		span  time.Duration
		want  int64
	}{
		{bucket, 0, 20},
		{bucket, 99 * time.Millisecond, 20},
		{bucket, 100 * time.Millisecond, 21},
		{bucket, 4 * time.Second, 60},
		{bucket, -time.Second, 20}, // a clock that was set back allows nothing more
		{log, 0, 10},
		{log, 999 * time.Millisecond, 10},
		{log, time.Second, 20},
		{log, 3500 * time.Millisecond, 40},
		{window, 0, 20}, // the end of a window, and the beginning of the next
		{window, time.Second, 30},
		{redislimiter.Limit{}, time.Hour, 0},
		{redislimiter.TokenBucket(1_000_000, time.Second, 1), 87600 * time.Hour, 315_360_000_000_001},
	} {
		if got := atMost(test.limit, test.span); got != test.want {
			t.Errorf("%v in %v: at most %d, want %d", test.limit, test.span, got, test.want)
		}
	}
}

// The judge has to be able to say no.
func TestJudgeFindsExcess(t *testing.T) {
	c := newCounts()
	c.decisions[decision{0, "203.0.113.1", redislimiter.SourceRedis, true}] = 15
	c.decisions[decision{1, "203.0.113.1", redislimiter.SourceRedis, true}] = 6
	c.decisions[decision{1, "203.0.113.2", redislimiter.SourceRedis, true}] = 1
	v := judge(c, redislimiter.SourceRedis, 1, redislimiter.TokenBucket(10, time.Second, 20), 0)
	if v.admitted != 22 || v.atMost != 40 || len(v.problems) != 1 || !strings.Contains(v.problems[0], "203.0.113.1 was admitted 21 times") {
		t.Errorf("%+v", v)
	}
}
