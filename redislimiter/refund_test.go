package redislimiter_test

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// onBoth runs a test on Redis and on Memory, for every algorithm.
func onBoth(t *testing.T, test func(t *testing.T, a limitertest.Algorithm, mk limitertest.Maker)) {
	t.Helper()
	for _, a := range limitertest.Algorithms() {
		for where, mk := range map[string]limitertest.Maker{"Redis": newLimiter, "Memory": newMemory} {
			t.Run(a.Name+"/"+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { test(t, a, mk) })
			})
		}
	}
}

func TestRefundGivesBack(t *testing.T) {
	onBoth(t, func(t *testing.T, a limitertest.Algorithm, mk limitertest.Maker) {
		l := mk(t, a.Make(10, time.Hour)).(operations)
		r := allow(t, l, "k", 10, true)
		allow(t, l, "k", 1, false)
		if err := r.Refund(t.Context(), 4); err != nil {
			t.Fatal(err)
		}
		if r := allow(t, l, "k", 4, true); r.Remaining != 0 {
			t.Fatalf("%+v", r)
		}
		allow(t, l, "k", 1, false)
		if err := l.Refund(t.Context(), "k", 2); err != nil {
			t.Fatal(err)
		}
		allow(t, l, "k", 2, true)
		allow(t, l, "k", 1, false)
	})
}

func TestRefundNeverOverfills(t *testing.T) {
	onBoth(t, func(t *testing.T, a limitertest.Algorithm, mk limitertest.Maker) {
		l := mk(t, a.Make(5, time.Hour)).(operations)
		allow(t, l, "k", 2, true)
		for range 3 {
			if err := l.Refund(t.Context(), "k", 1000); err != nil {
				t.Fatal(err)
			}
		}
		if r := allow(t, l, "k", 0, true); r.Remaining != 5 || r.ResetAfter != 0 {
			t.Fatalf("%+v", r)
		}
		allow(t, l, "k", 5, true)
		allow(t, l, "k", 1, false)
	})
}

func TestRefundCreatesNoKey(t *testing.T) {
	for _, a := range limitertest.Algorithms() {
		synctest.Test(t, func(t *testing.T) {
			server, client := limitertest.Redis(t)
			l, err := rl.New(client, "test", a.Make(5, time.Second))
			if err != nil {
				t.Fatal(err)
			}
			if err := l.Refund(t.Context(), "k", 3); err != nil {
				t.Fatal(err)
			}
			r := allow(t, l, "k", 3, true)
			time.Sleep(time.Minute) // the state has expired
			if err := r.Refund(t.Context(), 3); err != nil {
				t.Fatal(err)
			}
			if keys := server.Keys(); len(keys) != 0 {
				t.Fatalf("%s: a refund made %q", a.Name, keys)
			}
			allow(t, l, "k", 5, true)
			allow(t, l, "k", 1, false)
		})
	}
}

// What was charged in a window that has ended must not become quota of the next.
func TestRefundAfterTheWindowEnded(t *testing.T) {
	for _, limit := range []rl.Limit{rl.FixedWindow(5, time.Second), rl.SlidingWindowLog(5, time.Second)} {
		for _, mk := range []limitertest.Maker{newLimiter, newMemory} {
			synctest.Test(t, func(t *testing.T) {
				l := mk(t, limit)
				old := allow(t, l, "k", 5, true)
				time.Sleep(time.Second)
				allow(t, l, "k", 4, true)
				time.Sleep(time.Millisecond)
				if limit.Algorithm() == "fixed window" {
					if err := old.Refund(t.Context(), 5); err != nil {
						t.Fatal(err)
					}
				}
				if r := allow(t, l, "k", 1, true); r.Remaining != 0 {
					t.Fatalf("%v: %+v", limit, r)
				}
			})
		}
	}
}

func TestRefundKeepsTheExpiry(t *testing.T) {
	for _, a := range limitertest.Algorithms() {
		synctest.Test(t, func(t *testing.T) {
			server, client := limitertest.Redis(t)
			l, err := rl.New(client, "test", a.Make(5, time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			allow(t, l, "k", 3, true)
			if err := l.Refund(t.Context(), "k", 1); err != nil {
				t.Fatal(err)
			}
			keys := server.Keys()
			if len(keys) != 1 || server.TTL(keys[0]) <= 0 {
				t.Fatalf("%s: %q, TTL %v", a.Name, keys, server.TTL(keys[0]))
			}
		})
	}
}

func TestRefundArguments(t *testing.T) {
	m := newMemory(t, rl.TokenBucket(5, time.Hour, 5)).(operations)
	r := allow(t, m, "k", 2, true)
	for n, want := range map[int]string{-1: "n is -1", 3: "only 2 were charged"} {
		if err := r.Refund(t.Context(), n); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Result.Refund(%d): %v", n, err)
		}
	}
	if err := m.Refund(t.Context(), "k", -1); err == nil || !strings.Contains(err.Error(), "n is -1") {
		t.Errorf("Refund(-1): %v", err)
	}
	for name, r := range map[string]rl.Result{
		"zero": {}, "refused": allow(t, m, "k", 4, false), "a look": allow(t, m, "k", 0, true), "open": allow(t, rl.Open, "k", 1, true),
	} {
		if err := r.Refund(t.Context(), 1); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if r := allow(t, m, "k", 0, true); r.Remaining != 3 {
		t.Errorf("%+v", r)
	}
}

func TestRefundWorksThroughDecorators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLimiter(t, rl.TokenBucket(5, time.Hour, 5))
		plans := rl.AllowerFunc(l.AllowN)
		f := &rl.Fallback{Primary: rl.Shadow(plans), Secondary: rl.Closed}
		r := allow(t, f, "k", 5, true)
		if err := r.Refund(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		if r := allow(t, l, "k", 0, true); r.Remaining != 5 {
			t.Fatalf("%+v", r)
		}
	})
}

func TestRefundTellsWhenRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := flakyLimiter(t)
		r := allow(t, l, "k", 5, true)
		f.after = func(int64) error { return serverError("OOM command not allowed") }
		if err := r.Refund(t.Context(), 5); !errors.Is(err, rl.ErrUnavailable) {
			t.Fatal(err)
		}
	})
}
