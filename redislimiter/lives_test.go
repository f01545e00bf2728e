package redislimiter_test

import (
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A bucket's key lives at least until the bucket is full again, and at most about twice as long, also where the limit is
// changed in between.
func TestLifeOfABucket(t *testing.T) {
	limits := []rl.Limit{ // some differ only in how many units come back in a microsecond
		rl.TokenBucket(1, time.Second, 500), rl.TokenBucket(3, time.Second, 500), rl.TokenBucket(7, time.Minute, 40),
		rl.TokenBucket(9, time.Minute, 40), rl.LeakyBucket(3, time.Hour, 10), rl.TokenBucket(1000, time.Second, 2000),
	}
	for seed := range uint64(6) {
		synctest.Test(t, func(t *testing.T) {
			server, client := limitertest.Redis(t)
			random := rand.New(rand.NewPCG(seed, 1))
			var limiters []*rl.Limiter
			for _, limit := range limits {
				l, err := rl.New(client, "test", limit)
				if err != nil {
					t.Fatal(err)
				}
				limiters = append(limiters, l)
			}
			at := random.IntN(len(limiters))
			for range 150 {
				if random.IntN(20) == 0 {
					at = random.IntN(len(limiters))
				}
				var most time.Duration
				for _, l := range limiters { // any of them may have given it
					r, err := l.AllowN(t.Context(), "k", 0)
					if err != nil {
						t.Fatal(err)
					}
					most = max(most, r.ResetAfter)
				}
				before := server.TTL("rl:test:h:{k}") // which is never made shorter
				n, r, err := limiters[at].AllowAtMost(t.Context(), "k", 1+random.IntN(5))
				if err != nil {
					t.Fatal(err)
				}
				if n > 0 {
					ttl := server.TTL("rl:test:h:{k}")
					if most = max(most, r.ResetAfter); ttl < r.ResetAfter || ttl > max(before, 2*most+10*time.Second) {
						t.Fatalf("seed %d: %v: full again after %v, the key lives for %v", seed, limits[at], r.ResetAfter, ttl)
					}
				}
				time.Sleep(time.Duration(random.Int64N(int64(2 * time.Second))))
			}
		})
	}
}

// A bucket of a hundred a minute, drained and then used at its rate, has its life renewed by one charge in ten.
func TestChargesSeldomRenewALife(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := limitertest.Redis(t)
		l, err := rl.New(client, "test", rl.TokenBucket(100, time.Minute, 20))
		if err != nil {
			t.Fatal(err)
		}
		allow(t, l, "k", 20, true)
		renewed, end := 0, time.Time{}
		for range 100 {
			time.Sleep(600 * time.Millisecond)
			allow(t, l, "k", 1, true)
			if ends := time.Now().Add(server.TTL("rl:test:h:{k}")); !ends.Equal(end) {
				renewed, end = renewed+1, ends
			}
		}
		if renewed > 20 {
			t.Errorf("%d of 100 charges renewed the key's life", renewed)
		}
	})
}

// A key that was written at another rate gets the life that it needs at this one, with the first charge.
func TestLifeOfABucketWhoseRateWasLowered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := limitertest.Redis(t)
		allow(t, remade(t, client, rl.TokenBucket(3, time.Second, 500)), "k", 500, true)
		l := remade(t, client, rl.TokenBucket(1, time.Second, 500)) // of the same unit
		for range 5 {
			time.Sleep(time.Second)
			r := allow(t, l, "k", 1, true)
			if ttl := server.TTL("rl:test:h:{k}"); ttl < r.ResetAfter {
				t.Fatalf("full again after %v, the key lives for %v", r.ResetAfter, ttl)
			}
		}
	})
}

// While two versions of a limiter are running, a charge at the faster rate does not shorten the life that the slower one gave.
func TestChargesOfAnotherRateKeepTheLife(t *testing.T) {
	type make = func(rate int, per time.Duration, burst int) rl.Limit
	for key, limit := range map[string]make{"rl:test:gcra0:{k}": rl.GCRA, "rl:test:h:{k}": rl.TokenBucket} {
		synctest.Test(t, func(t *testing.T) {
			server, client := limitertest.Redis(t)
			slow, fast := remade(t, client, limit(1, time.Hour, 30)), remade(t, client, limit(10, time.Second, 20))
			allow(t, slow, "k", 30, true)
			for range 3 {
				time.Sleep(5 * time.Second)
				allow(t, fast, "k", 1, true)
			}
			if ttl := server.TTL(key); ttl < 29*time.Hour {
				t.Errorf("%s lives for %v", key, ttl)
			}
			allow(t, slow, "k", 30, false)
			time.Sleep(30 * time.Minute)
			if r, err := slow.AllowN(t.Context(), "k", 0); err != nil || r.Remaining > 29 || r.ResetAfter == 0 {
				t.Errorf("%s: half an hour later %+v, %v", key, r, err)
			}
		})
	}
}
