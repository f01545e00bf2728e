package redislimiter_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

func ignore(context.Context, rl.Event) {}

// Decorators that change no decision.
func TestDecoratorsConform(t *testing.T) {
	for name, decorate := range map[string]func(rl.Allower) rl.Allower{
		"Observe": func(l rl.Allower) rl.Allower { return rl.Observe(l, ignore) },
		"Observe, Fallback": func(l rl.Allower) rl.Allower {
			return rl.Observe(&rl.Fallback{Primary: rl.Observe(l, ignore), Secondary: rl.Closed}, ignore)
		},
	} {
		t.Run(name, func(t *testing.T) {
			limitertest.Exercise(t, func(tb testing.TB, limits ...rl.Limit) rl.Allower { return decorate(newLimiter(tb, limits...)) })
		})
	}
}

func TestObserveSeesEachDecision(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redisIs, inner := flakyLimiter(t) // a limit of 10
		redisIs.before = func(context.Context, int64, redis.Cmder) error {
			time.Sleep(3 * time.Millisecond)
			return nil
		}
		var events []rl.Event
		l := rl.Observe(inner, func(_ context.Context, e rl.Event) { events = append(events, e) })
		for _, n := range []int{10, 1, 0, 11} {
			r, err := l.AllowN(t.Context(), "k", n)
			e := events[len(events)-1]
			if e.Key != "k" || e.N != n || e.Err != err || e.Result.Allowed != r.Allowed || e.Result.RetryAfter != r.RetryAfter || e.Result.Name != "test" {
				t.Fatalf("n = %d: returned %+v, %v; observed %+v", n, r, err, e)
			}
			if want := 3 * time.Millisecond; n < 11 && e.Elapsed != want {
				t.Fatalf("n = %d took %v, want %v", n, e.Elapsed, want)
			}
		}
		if len(events) != 4 {
			t.Fatalf("%d events of 4 decisions", len(events))
		}
	})
}

// Whatever fails, observers learn which limiter it was.
func TestFailuresCarryTheName(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redisIs, inner := flakyLimiter(t)
		redisIs.after = func(int64) error { return serverError("OOM command not allowed") }
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		plans := rl.AllowerFunc(inner.AllowN)
		for name, l := range map[string]rl.Allower{
			"Limiter":      inner,
			"Memory":       newMemory(t, rl.TokenBucket(10, time.Second, 10)),
			"Shadow":       rl.Shadow(inner),
			"CacheDenials": rl.CacheDenials(inner, 100),
			"Lease":        rl.Lease(inner, 100),
			"AllowerFunc":  plans,
			"Fallback":     &rl.Fallback{Primary: rl.Observe(rl.Shadow(rl.CacheDenials(rl.Lease(inner, 5), 5)), ignore), Secondary: rl.Open},
			"of plans":     &rl.Fallback{Primary: plans, Secondary: rl.Closed},
			"AllowAll": rl.AllowerFunc(func(ctx context.Context, key string, n int) (rl.Result, error) {
				return rl.AllowAll(ctx, rl.Charge{Limiter: inner, Key: key, N: n}, rl.Charge{Limiter: inner, Key: key + "'", N: n})
			}),
		} {
			var seen rl.Event
			l = rl.Observe(l, func(_ context.Context, e rl.Event) { seen = e })
			for _, n := range []int{1, 11, -1} {
				// What is checked before any limiter is looked at, and what Closed
				// decided for nobody knows whom.
				nameless := name == "AllowAll" && n < 0 || name == "of plans" && n == 1
				if _, err := l.AllowN(t.Context(), "k", n); seen.Result.Name != "test" && !nameless || seen.Err != err {
					t.Errorf("%s, n = %d: %+v, returned %v", name, n, seen, err)
				}
				if r := seen.Result; seen.Err == nil && (r.Name == "") != (len(r.Limits) == 0) {
					t.Errorf("%s: half a name: %+v", name, r) // headers would announce a limit of 0
				}
			}
			if _, err := l.AllowN(gone, "k", 1); !errors.Is(err, context.Canceled) || seen.Result.Name != "test" && name != "of plans" { // not picked yet
				t.Errorf("%s, gone: %+v, returned %v", name, seen, err)
			}
		}
	})
}

// While the breaker rests nobody asks Primary, and its decorators still tell its
// name and limits, which the headers need.
func TestFallbackSeesThroughDecorators(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redisIs, inner := flakyLimiter(t)
		redisIs.after = func(int64) error { return serverError("OOM command not allowed") }
		f := &rl.Fallback{Primary: rl.Observe(rl.Shadow(rl.CacheDenials(rl.Lease(inner, 5), 5)), ignore), Secondary: rl.Open}
		for range 10 {
			if r := allowAny(t, f, "k", 1); r.Name != "test" || r.Limit != inner.Limits()[0] || len(r.Limits) != 1 {
				t.Fatalf("%+v", r)
			}
		}
	})
}

func TestRefundThroughObserve(t *testing.T) {
	l := rl.Observe(newMemory(t, rl.TokenBucket(1, time.Hour, 10)), ignore)
	r := allow(t, l, "k", 10, true)
	if err := r.Refund(t.Context(), 4); err != nil {
		t.Fatal(err)
	}
	if r := allow(t, l, "k", 0, true); r.Remaining != 4 {
		t.Fatalf("%+v", r)
	}
}

func TestObserveAllocatesNothing(t *testing.T) {
	m := newMemory(t, rl.TokenBucket(1, time.Hour, 1))
	var count int
	l := rl.Observe(m, func(context.Context, rl.Event) { count++ })
	ctx := t.Context()
	for _, n := range []int{0, 1} { // a look; refused after the first
		bare := testing.AllocsPerRun(100, func() { _, _ = m.AllowN(ctx, "k", n) })
		if n := testing.AllocsPerRun(100, func() { _, _ = l.AllowN(ctx, "k", n) }); n != bare {
			t.Errorf("%v allocations, %v without Observe", n, bare)
		}
	}
	if count == 0 {
		t.Fatal("nothing was observed")
	}
}

// A panic of the observer is the caller's to see. The charge is made, and the
// limiter goes on.
func TestObserverPanics(t *testing.T) {
	m := newMemory(t, rl.TokenBucket(1, time.Hour, 10))
	l := rl.Observe(m, func(_ context.Context, e rl.Event) {
		if e.Key == "bad" {
			panic("bug")
		}
	})
	for _, l := range []rl.Allower{l, &rl.Fallback{Primary: l, Secondary: rl.Closed}} {
		func() {
			defer func() {
				if p := recover(); p != "bug" {
					t.Errorf("recovered %v", p)
				}
			}()
			_, _ = l.AllowN(t.Context(), "bad", 1)
		}()
		allow(t, l, "good", 1, true)
	}
	if r := allow(t, m, "bad", 0, true); r.Remaining != 8 {
		t.Fatalf("%+v", r)
	}
}

func TestNothingIsObservedOfAPanic(t *testing.T) {
	l := rl.Observe(rl.AllowerFunc(func(context.Context, string, int) (rl.Result, error) { panic("bug") }),
		func(_ context.Context, e rl.Event) { t.Errorf("observed %+v", e) })
	defer func() {
		if p := recover(); p != "bug" {
			t.Errorf("recovered %v", p)
		}
	}()
	_, _ = l.AllowN(t.Context(), "k", 1)
}

// What is inside an Observe decides what it sees.
func TestObserveInsideAndOutside(t *testing.T) {
	var inside, outside rl.Event
	into := func(to *rl.Event) func(context.Context, rl.Event) {
		return func(_ context.Context, e rl.Event) { *to = e }
	}
	p := &primary{Allower: newMemory(t, rl.TokenBucket(1, time.Hour, 1))}
	l := rl.Observe(rl.Shadow(rl.Observe(p, into(&inside))), into(&outside))
	allow(t, l, "k", 1, true)
	allow(t, l, "k", 1, true)
	if inside.Result.Allowed || !outside.Result.Allowed || !outside.Result.Shadowed {
		t.Errorf("Shadow: inside %+v, outside %+v", inside, outside)
	}
	p.down.Store(true)
	l = rl.Observe(&rl.Fallback{Primary: rl.Observe(p, into(&inside)), Secondary: rl.Open}, into(&outside))
	allow(t, l, "k", 1, true)
	if !errors.Is(inside.Err, rl.ErrUnavailable) || outside.Err != nil || outside.Result.Source != rl.SourceOpen {
		t.Errorf("Fallback: inside %+v, outside %+v", inside, outside)
	}
}

func TestObserveWithoutFunction(t *testing.T) {
	l := rl.Observe(newMemory(t, rl.TokenBucket(1, time.Hour, 10)), nil)
	if r, err := l.AllowN(t.Context(), "k", 1); err == nil || r.Allowed || errors.Is(err, rl.ErrUnavailable) {
		t.Fatalf("%+v, %v", r, err)
	}
}
