package redislimiter_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A limiter that is made again with a longer period keeps what was used until that
// period is over: the key gets its life.
func TestALongerPeriodKeepsUsage(t *testing.T) {
	bucket := func(n int, per time.Duration) rl.Limit { return rl.TokenBucket(n, per, n) }
	gcra := func(n int, per time.Duration) rl.Limit { return rl.GCRA(n, per, n) }
	for _, limit := range []func(int, time.Duration) rl.Limit{rl.FixedWindow, rl.SlidingWindowCounter, rl.SlidingWindowLog, bucket, gcra} {
		for _, again := range []bool{false, true} { // with a refund in between
			synctest.Test(t, func(t *testing.T) {
				_, client := limitertest.Redis(t)
				short, long := remade(t, client, limit(10, 10*time.Second)), remade(t, client, limit(10, 1000*time.Hour))
				allow(t, short, "k", 5, true)
				time.Sleep(10 * time.Millisecond)
				if again {
					if err := long.Refund(t.Context(), "k", 1); err != nil {
						t.Fatal(err)
					}
				}
				for range 10 {
					allowAny(t, long, "k", 1)
				}
				r := allow(t, long, "k", 1, false)
				time.Sleep(59 * time.Minute)
				if r.RetryAfter < time.Hour {
					t.Fatalf("%v: RetryAfter is %v", r.Limit, r.RetryAfter)
				}
				if now := allow(t, long, "k", 1, false); now.Remaining != 0 {
					t.Errorf("%v: %d remain", now.Limit, now.Remaining)
				}
			})
		}
	}
}

// The same where the windows of both begin together.
func TestALongerPeriodThatBeginsTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // at midnight
		_, client := limitertest.Redis(t)
		for _, limit := range []func(int, time.Duration) rl.Limit{rl.FixedWindow, rl.SlidingWindowCounter} {
			hour, day := remade(t, client, limit(10, time.Hour)), remade(t, client, limit(10, 24*time.Hour))
			allow(t, hour, "k", 5, true)
			time.Sleep(10 * time.Minute)
			allow(t, day, "k", 5, true)
			time.Sleep(3 * time.Hour)
			allow(t, day, "k", 1, false)
		}
	})
}

func TestALongerPeriodOfABlock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := limitertest.Redis(t)
		window := rl.FixedWindow(1, time.Second)
		short := remade(t, client, window, rl.BlockAfter(4, 10*time.Second, time.Hour))
		long := remade(t, client, window, rl.BlockAfter(4, 10*time.Hour, time.Hour))
		allow(t, short, "k", 1, true)
		allow(t, short, "k", 1, false)
		allow(t, long, "k", 1, false)
		allow(t, long, "k", 1, false)
		time.Sleep(time.Minute)
		allow(t, long, "k", 1, true)
		allow(t, long, "k", 1, false) // the fourth
		time.Sleep(10 * time.Minute)
		allow(t, long, "k", 1, false)
	})
}

// Limiters of one name with different algorithms, as while a version with one more
// limit is rolled out, share a hash: neither shortens the other's life.
func TestLimitersOfOneNameKeepEachOthersState(t *testing.T) {
	second := rl.TokenBucket(10, time.Second, 20)
	for _, limits := range [][]rl.Limit{
		{rl.FixedWindow(30, 24*time.Hour)},
		{second, rl.FixedWindow(30, 24*time.Hour)},
		{rl.FixedWindow(30, time.Minute), rl.BlockAfter(1, time.Minute, 24*time.Hour)},
	} {
		synctest.Test(t, func(t *testing.T) {
			_, client := limitertest.Redis(t)
			a, b := remade(t, client, limits...), remade(t, client, second)
			allow(t, b, "k", 1, true)
			for range 31 {
				allowAny(t, a, "k", 1)
				time.Sleep(200 * time.Millisecond)
			}
			allow(t, a, "k", 1, false)
			allow(t, b, "k", 1, true)
			time.Sleep(10 * time.Minute)
			allow(t, b, "k", 1, true)
			time.Sleep(10 * time.Minute)
			allow(t, a, "k", 1, false)
		})
	}
}
