package redislimiter_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A step of a timeline: at a time since its beginning, n calls for one unit of
// which so many are admitted.
type step struct {
	at       time.Duration
	calls    int
	admitted int
}

// What users of limiters have reported as wrong elsewhere.
func TestTimelines(t *testing.T) {
	for _, test := range []struct {
		name  string
		limit rl.Limit
		steps []step
	}{
		{"10 per second, one token is back after 150 ms", rl.TokenBucket(10, time.Second, 10),
			[]step{{0, 10, 10}, {150 * time.Millisecond, 3, 1}, {200 * time.Millisecond, 1, 1}}},
		{"1 per 1.9 s, refused after 1.15 s", rl.TokenBucket(1, 1900*time.Millisecond, 1),
			[]step{{0, 1, 1}, {1150 * time.Millisecond, 1, 0}, {1900 * time.Millisecond, 1, 1}}},
		{"1 per 1.9 s in a log", rl.SlidingWindowLog(1, 1900*time.Millisecond),
			[]step{{0, 1, 1}, {1150 * time.Millisecond, 1, 0}, {1900 * time.Millisecond, 1, 1}}},
		{"2 per 500 ms, six at once", rl.SlidingWindowLog(2, 500*time.Millisecond), []step{{0, 6, 2}, {499 * time.Millisecond, 1, 0}, {500 * time.Millisecond, 6, 2}}},
		{"2 per 500 ms in a fixed window", rl.FixedWindow(2, 500*time.Millisecond), []step{{0, 6, 2}, {500 * time.Millisecond, 6, 2}}},
		{"100 calls within a microsecond", rl.SlidingWindowLog(10, time.Second), []step{{0, 100, 10}, {time.Second, 100, 10}}},
		{"a limit smaller than a millisecond", rl.TokenBucket(1, 100*time.Microsecond, 1),
			[]step{{0, 2, 1}, {99 * time.Microsecond, 1, 0}, {100 * time.Microsecond, 2, 1}}},
		{"counters are forgotten when the window ends", rl.FixedWindow(3, time.Minute),
			[]step{{0, 5, 3}, {59 * time.Second, 5, 0}, {time.Minute, 5, 3}}},
	} {
		for where, mk := range map[string]limitertest.Maker{"Redis": newLimiter, "Memory": newMemory} {
			t.Run(test.name+"/"+where, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					l, start := mk(t, test.limit), time.Now()
					for _, s := range test.steps {
						time.Sleep(s.at - time.Since(start))
						admitted := 0
						for range s.calls {
							if allowAny(t, l, "k", 1).Allowed {
								admitted++
							}
						}
						if admitted != s.admitted {
							t.Fatalf("at %v: admitted %d of %d, want %d", s.at, admitted, s.calls, s.admitted)
						}
					}
				})
			})
		}
	}
}
