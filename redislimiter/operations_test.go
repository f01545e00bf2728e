package redislimiter_test

import (
	"context"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

func TestAllowAtMostGrantsWhatFits(t *testing.T) {
	onBoth(t, func(t *testing.T, a limitertest.Algorithm, mk limitertest.Maker) {
		l := mk(t, a.Make(10, time.Hour)).(operations)
		for _, step := range []struct{ n, granted, remaining int }{
			{4, 4, 6}, {0, 0, 6}, {100, 6, 0}, {1, 0, 0},
		} {
			granted, r, err := l.AllowAtMost(t.Context(), "k", step.n)
			if err != nil || granted != step.granted || r.Remaining != step.remaining {
				t.Fatalf("AllowAtMost(%d): %d, %+v, %v", step.n, granted, r, err)
			}
			if step.n > 0 && r.Allowed != (granted > 0) || r.Allowed == (r.RetryAfter > 0) {
				t.Fatalf("AllowAtMost(%d): %+v", step.n, r)
			}
		}
		if _, _, err := l.AllowAtMost(t.Context(), "k", -1); err == nil || !strings.Contains(err.Error(), "n is -1") {
			t.Fatal(err)
		}
	})
}

// Granting part of what was asked for must not lose the fraction that had come
// back by then.
func TestAllowAtMostLosesNoFraction(t *testing.T) {
	for _, mk := range []limitertest.Maker{newLimiter, newMemory} {
		synctest.Test(t, func(t *testing.T) {
			l := mk(t, rl.TokenBucket(3, time.Second, 3)).(operations)
			sum := 0
			for range 1000 {
				granted, _, err := l.AllowAtMost(t.Context(), "k", 5)
				if err != nil {
					t.Fatal(err)
				}
				sum += granted
				time.Sleep(250 * time.Millisecond)
			}
			if sum != 3+3*999/4 {
				t.Fatalf("granted %d in 249.75 s at 3 per second, want %d", sum, 3+3*999/4)
			}
		})
	}
}

func TestBlockAfter(t *testing.T) {
	for _, a := range limitertest.Algorithms() {
		for _, mk := range []limitertest.Maker{newLimiter, newMemory} {
			synctest.Test(t, func(t *testing.T) {
				block := rl.BlockAfter(3, time.Minute, 15*time.Minute)
				l := mk(t, a.Make(2, time.Second), block)
				allow(t, l, "k", 2, true)
				for range 2 {
					if r := allow(t, l, "k", 1, false); r.RetryAfter > 2*time.Second || r.Limit == block {
						t.Fatalf("%s: blocked too early: %+v", a.Name, r)
					}
				}
				// The third refusal begins the block, and those after it
				// do not extend it.
				blocked := time.Now()
				if r := allow(t, l, "k", 1, false); r.RetryAfter != 15*time.Minute || r.Limit != block || r.Remaining != 0 {
					t.Fatalf("%s: %+v", a.Name, r)
				}
				for range 10 {
					time.Sleep(time.Minute)
					if r := allow(t, l, "k", 1, false); r.RetryAfter != 15*time.Minute-time.Since(blocked) {
						t.Fatalf("%s: %+v", a.Name, r)
					}
				}
				time.Sleep(5*time.Minute - time.Microsecond)
				allow(t, l, "k", 1, false)
				time.Sleep(time.Microsecond)
				allow(t, l, "k", 2, true)
				// Refusals count from new.
				if r := allow(t, l, "k", 1, false); r.Limit == block {
					t.Fatalf("%s: %+v", a.Name, r)
				}
			})
		}
	}
}

func TestRefusalsThatAreTooFarApartDoNotBlock(t *testing.T) {
	for _, mk := range []limitertest.Maker{newLimiter, newMemory} {
		synctest.Test(t, func(t *testing.T) {
			block := rl.BlockAfter(2, time.Second, time.Hour)
			l := mk(t, rl.FixedWindow(1, time.Hour), block)
			allow(t, l, "k", 1, true)
			for range 5 {
				if r := allow(t, l, "k", 1, false); r.Limit == block {
					t.Fatalf("%+v", r)
				}
				time.Sleep(time.Second)
			}
			allow(t, l, "k", 1, false)
			time.Sleep(time.Second - time.Microsecond)
			if r := allow(t, l, "k", 1, false); r.Limit != block {
				t.Fatalf("%+v", r)
			}
		})
	}
}

func TestBlockNeedsAnotherRule(t *testing.T) {
	_, err := rl.NewMemory("x", rl.BlockAfter(1, time.Second, time.Second))
	if err == nil || !strings.Contains(err.Error(), "BlockAfter needs another rule") {
		t.Fatal(err)
	}
}

func TestWaitSleepsUntilItIsAllowed(t *testing.T) {
	onBoth(t, func(t *testing.T, a limitertest.Algorithm, mk limitertest.Maker) {
		l := mk(t, a.Make(2, time.Second))
		allow(t, l, "k", 2, true)
		start := time.Now()
		if err := rl.Wait(t.Context(), l, "k", 1); err != nil {
			t.Fatal(err)
		}
		if took := time.Since(start); took < 500*time.Millisecond || took > 2*time.Second {
			t.Fatalf("waited %v", took)
		}
	})
}

func TestWaitGivesUpAtOnce(t *testing.T) {
	onBoth(t, func(t *testing.T, a limitertest.Algorithm, mk limitertest.Maker) {
		l := mk(t, a.Make(1, time.Hour))
		allow(t, l, "k", 1, true)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		start := time.Now()
		if err := rl.Wait(ctx, l, "k", 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 0 {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
		if err := rl.Wait(ctx, l, "k", 2); !errors.Is(err, rl.ErrNeverAllowed) {
			t.Fatal(err)
		}
		ctx, cancel = context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if err := rl.Wait(ctx, l, "k", 1); err != context.Canceled || time.Since(start) != time.Second {
			t.Fatalf("%v after %v", err, time.Since(start))
		}
	})
}

// The delay is promised, so the caller is told at once if it is too long, and
// gives its place in the queue back.
func TestWaitInAQueue(t *testing.T) {
	for _, mk := range []limitertest.Maker{newLimiter, newMemory} {
		synctest.Test(t, func(t *testing.T) {
			l := mk(t, rl.LeakyBucket(1, time.Second, 5))
			start := time.Now()
			for i := range 3 {
				if r := allow(t, l, "k", 1, true); r.Delay != time.Duration(i)*time.Second {
					t.Fatalf("%d: %+v", i, r)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			if err := rl.Wait(ctx, l, "k", 1); !errors.Is(err, context.DeadlineExceeded) || time.Since(start) != 0 {
				t.Fatalf("%v after %v", err, time.Since(start))
			}
			if err := rl.Wait(t.Context(), l, "k", 1); err != nil || time.Since(start) != 3*time.Second {
				t.Fatalf("%v after %v: the place was not given back", err, time.Since(start))
			}
		})
	}
}

func TestManyWaitersDoNotStampede(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMemory(t, rl.TokenBucket(10, time.Second, 1))
		var asked atomic.Int64
		l := rl.AllowerFunc(func(ctx context.Context, key string, n int) (rl.Result, error) {
			asked.Add(1)
			return m.AllowN(ctx, key, n)
		})
		var wg sync.WaitGroup
		start := time.Now()
		const waiters = 300
		for range waiters {
			wg.Go(func() {
				if err := rl.Wait(t.Context(), l, "k", 1); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		took := time.Since(start)
		// A stampede would ask about waiters²/2 = 45,000 times.
		if took > 60*time.Second || asked.Load() > 10_000 {
			t.Fatalf("%d waiters took %v and asked %d times", waiters, took, asked.Load())
		}
		t.Logf("%d waiters at 10 per second: %v, asked %d times", waiters, took, asked.Load())
	})
}

func TestShadowLetsThrough(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, inner := flakyLimiter(t)
		l := rl.Shadow(inner)
		if r := allow(t, l, "k", 10, true); r.Shadowed {
			t.Fatalf("%+v", r)
		}
		if r := allow(t, l, "k", 1, true); !r.Shadowed || r.RetryAfter != 0 {
			t.Fatalf("%+v", r)
		}
		if r := allow(t, l, "k", 0, false); r.Shadowed {
			t.Fatalf("a look: %+v", r)
		}
		f.after = func(int64) error { return serverError("OOM") }
		if _, err := l.AllowN(t.Context(), "k", 1); !errors.Is(err, rl.ErrUnavailable) {
			t.Fatal(err)
		}
	})
}
