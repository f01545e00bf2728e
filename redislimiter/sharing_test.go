package redislimiter_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// slowLimiter is a limiter whose trips each take 5 ms.
func slowLimiter(t *testing.T, limits ...rl.Limit) (*flaky, *rl.Limiter) {
	t.Helper()
	_, client := limitertest.Redis(t)
	f := &flaky{UniversalClient: client, before: func(context.Context, int64, redis.Cmder) error {
		time.Sleep(5 * time.Millisecond)
		return nil
	}}
	l, err := rl.New(f, "test", limits...)
	if err != nil {
		t.Fatal(err)
	}
	allow(t, l, "warm", 1, true)
	f.sent.Store(0)
	return f, l
}

func TestCallsShareTrips(t *testing.T) {
	for _, keys := range []int{1, 50} {
		synctest.Test(t, func(t *testing.T) {
			f, l := slowLimiter(t, rl.TokenBucket(1, time.Hour, 400))
			var admitted atomic.Int64
			var wg sync.WaitGroup
			for i := range 500 {
				wg.Go(func() {
					if allowAny(t, l, fmt.Sprint(i%keys), 1).Allowed {
						admitted.Add(1)
					}
				})
			}
			start := time.Now()
			wg.Wait()
			// Two trips at once carry a call each, and the next two the rest.
			if n := f.sent.Load(); n > 5 || time.Since(start) > 15*time.Millisecond {
				t.Errorf("%d keys: %d trips, %v", keys, n, time.Since(start))
			}
			if want := int64(min(500, 400*keys)); admitted.Load() != want {
				t.Errorf("%d keys: admitted %d, want %d", keys, admitted.Load(), want)
			}
		})
	}
}

// Calls that share an entry are answered as if they had come one by one.
func TestSharedAnswersAreThoseOfOneByOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := slowLimiter(t, rl.TokenBucket(1, time.Second, 10))
		results := make([]rl.Result, 20)
		var wg sync.WaitGroup
		for i := range results {
			wg.Go(func() { results[i] = allowAny(t, l, "k", 1) })
			synctest.Wait() // so that they arrive in this order
		}
		wg.Wait()
		if f.sent.Load() > 4 {
			t.Fatalf("%d trips", f.sent.Load())
		}
		seen := map[int]int{}
		for i, r := range results {
			if r.Allowed != (i < 10) {
				t.Errorf("call %d: %+v", i, r)
			}
			if r.Allowed {
				seen[r.Remaining]++
				if want := time.Duration(10-r.Remaining) * time.Second; r.ResetAfter > want || r.ResetAfter < want-20*time.Millisecond {
					t.Errorf("call %d: %d remaining, reset after %v", i, r.Remaining, r.ResetAfter)
				}
			} else if r.RetryAfter > time.Second || r.RetryAfter < 900*time.Millisecond {
				t.Errorf("call %d: %+v", i, r)
			}
		}
		if len(seen) != 10 {
			t.Errorf("remaining: %v", seen)
		}
	})
}

// Different costs, looks and partial grants of one key in one trip.
func TestMixedCallsInOneTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l := slowLimiter(t, rl.SlidingWindowLog(100, time.Hour))
		var units atomic.Int64
		var wg sync.WaitGroup
		for i := range 120 {
			wg.Go(func() {
				switch i % 4 {
				case 0:
					if allowAny(t, l, "k", 1).Allowed {
						units.Add(1)
					}
				case 1:
					if allowAny(t, l, "k", 7).Allowed {
						units.Add(7)
					}
				case 2:
					allowAny(t, l, "k", 0)
				case 3:
					n, _, err := l.AllowAtMost(t.Context(), "k", 3)
					if err != nil {
						t.Error(err)
					}
					units.Add(int64(n))
				}
			})
		}
		wg.Wait()
		if left := allowAny(t, l, "k", 0).Remaining; int64(100-left) != units.Load() {
			t.Fatalf("granted %d units, %d are left of 100", units.Load(), left)
		}
		if units.Load() != 100 {
			t.Fatalf("granted %d of 100", units.Load())
		}
	})
}

// One key that holds something else must not take the others down with it.
func TestOneBadKeyInASharedTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := slowLimiter(t, rl.TokenBucket(1, time.Hour, 5))
		if err := f.LPush(t.Context(), "rl:test:h:{bad}", "x").Err(); err != nil {
			t.Fatal(err)
		}
		var wg sync.WaitGroup
		var failed atomic.Int64
		for i := range 90 {
			wg.Go(func() {
				if i%30 == 3 {
					if _, err := l.Allow(t.Context(), "bad"); errors.Is(err, rl.ErrMisconfigured) {
						failed.Add(1)
					}
					return
				}
				allow(t, l, fmt.Sprint(i), 1, true)
			})
		}
		wg.Wait()
		if failed.Load() != 3 {
			t.Fatalf("%d calls of the bad key failed, want 3", failed.Load())
		}
		for i := range 90 {
			if i%30 != 3 && allow(t, l, fmt.Sprint(i), 0, true).Remaining != 4 {
				t.Fatalf("key %d was not charged once", i)
			}
		}
	})
}

func TestCallerThatLeavesTheQueueIsNotCharged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l := slowLimiter(t, rl.TokenBucket(1, time.Hour, 100))
		var wg sync.WaitGroup
		for range 2 { // the trips that the others wait for
			wg.Go(func() { allow(t, l, "other", 1, true) })
		}
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		for i := range 40 {
			wg.Go(func() {
				if i%2 == 0 {
					if _, err := l.Allow(ctx, "k"); err != context.Canceled {
						t.Errorf("got %v", err)
					}
					return
				}
				allow(t, l, "k", 1, true)
			})
		}
		synctest.Wait()
		cancel()
		wg.Wait()
		if left := allow(t, l, "k", 0, true).Remaining; left != 80 {
			t.Fatalf("%d left, want 80: those that left the queue were charged", left)
		}
	})
}

// Trips that hang delay nobody beyond his deadline, and others get through.
func TestHungTripsDoNotHoldUpTheRest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, l := slowLimiter(t, rl.TokenBucket(1, time.Hour, 1000))
		release := make(chan struct{})
		f.before = func(_ context.Context, call int64, _ redis.Cmder) error {
			if call <= 2 {
				<-release
			}
			return nil
		}
		for range 2 {
			go l.Allow(t.Context(), "hung")
		}
		synctest.Wait()
		time.Sleep(20 * time.Millisecond)
		for range 20 {
			start := time.Now()
			allow(t, l, "k", 1, true)
			if took := time.Since(start); took > 0 {
				t.Fatalf("took %v behind trips that hang", took)
			}
			time.Sleep(15 * time.Millisecond)
		}
		// Many at once gather behind the one trip that comes back.
		f.before = func(context.Context, int64, redis.Cmder) error {
			time.Sleep(time.Millisecond)
			return nil
		}
		start := time.Now()
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() { allow(t, l, "k", 1, true) })
		}
		wg.Wait()
		if took := time.Since(start); took > 5*time.Millisecond {
			t.Errorf("50 calls behind trips that hang took %v", took)
		}
		close(release)
	})
}

// What a tracer put into the context of a call that travels alone is there when
// its command is sent.
func TestValuesOfALoneCaller(t *testing.T) {
	type span struct{}
	synctest.Test(t, func(t *testing.T) {
		f, l := flakyLimiter(t)
		var got any
		f.before = func(ctx context.Context, _ int64, _ redis.Cmder) error {
			got = ctx.Value(span{})
			return nil
		}
		if _, err := l.Allow(context.WithValue(t.Context(), span{}, "mine"), "k"); err != nil || got != "mine" {
			t.Fatal(got, err)
		}
	})
}

// Each call that waits leaves at its own deadline, whatever the order of the
// deadlines and whether it is on a trip or waits for one, and what its trip
// brings later meets nobody.
func TestEachCallLeavesAtItsDeadline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := limitertest.Redis(t)
		f := &flaky{UniversalClient: client}
		l, err := rl.New(f, "test", rl.TokenBucket(1, time.Hour, 1000))
		if err != nil {
			t.Fatal(err)
		}
		l.Timeout = 200 * time.Millisecond
		allow(t, l, "k", 1, true)
		f.before = func(context.Context, int64, redis.Cmder) error {
			time.Sleep(time.Second)
			return nil
		}
		var wg sync.WaitGroup
		for i := range 100 {
			within := time.Duration(10+i*37%100) * time.Millisecond
			if i%5 == 0 {
				within = l.Timeout
			}
			wg.Go(func() {
				ctx, cancel := context.Background(), func() {}
				if within < l.Timeout {
					ctx, cancel = context.WithTimeout(ctx, within)
				}
				defer cancel()
				start := time.Now()
				_, err := l.Allow(ctx, "k")
				if took := time.Since(start); took != within || !errors.Is(err, rl.ErrUnavailable) || errors.Is(err, context.DeadlineExceeded) != (i%5 != 0) {
					t.Errorf("call %d with %v: %v after %v", i, within, err, took)
				}
			})
			if i%10 == 0 {
				synctest.Wait() // some are on trips when others come
			}
		}
		wg.Wait()
		f.well.Store(true)
		time.Sleep(2 * time.Second) // the trips come back
		if r := allow(t, l, "k", 1, true); r.Remaining < 998-100 || r.Remaining > 998 {
			t.Errorf("%d remaining", r.Remaining)
		}
	})
}
