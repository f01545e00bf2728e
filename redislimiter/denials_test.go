package redislimiter_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

func TestCacheDenialsConforms(t *testing.T) {
	limitertest.Exercise(t, func(tb testing.TB, limits ...rl.Limit) rl.Allower {
		return rl.CacheDenials(newLimiter(tb, limits...), 1000)
	})
}

func TestRefusedTrafficCostsNoTrip(t *testing.T) {
	for _, a := range limitertest.Algorithms() {
		synctest.Test(t, func(t *testing.T) {
			_, client := limitertest.Redis(t)
			f := &flaky{UniversalClient: client}
			inner, err := rl.New(f, "test", a.Make(5, time.Second))
			if err != nil {
				t.Fatal(err)
			}
			l := rl.CacheDenials(inner, 100)
			allow(t, l, "k", 5, true)
			first := allow(t, l, "k", 1, false)
			start := time.Now()
			f.sent.Store(0)
			for range 100 {
				time.Sleep(first.RetryAfter / 101)
				r := allow(t, l, "k", 1, false)
				if r.Source != rl.SourceDenyCache || r.RetryAfter != first.RetryAfter-time.Since(start) || r.Limit != first.Limit {
					t.Fatalf("%s: %+v", a.Name, r)
				}
			}
			if f.sent.Load() != 0 {
				t.Fatalf("%s: %d trips", a.Name, f.sent.Load())
			}
			time.Sleep(first.RetryAfter - time.Since(start))
			if r := allow(t, l, "k", 1, true); r.Source != rl.SourceRedis {
				t.Fatalf("%s: %+v", a.Name, r)
			}
		})
	}
}

func TestCachedDenialsAllocateNothing(t *testing.T) {
	m := newMemory(t, rl.TokenBucket(1, time.Hour, 1))
	l := rl.CacheDenials(m, 100)
	allow(t, l, "k", 1, true)
	allow(t, l, "k", 1, false)
	ctx := t.Context()
	if n := testing.AllocsPerRun(100, func() { _, _ = l.AllowN(ctx, "k", 1) }); n != 0 {
		t.Fatalf("%v allocations", n)
	}
}

func TestDenialsOfOtherCostsAreAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rl.CacheDenials(newLimiter(t, rl.TokenBucket(1, time.Hour, 10)), 100)
		allow(t, l, "k", 7, true)
		allow(t, l, "k", 5, false)
		allow(t, l, "k", 3, true)
		if r := allow(t, l, "k", 0, false); r.Source != rl.SourceRedis {
			t.Fatalf("a look: %+v", r)
		}
	})
}

func TestRefundEndsARememberedDenial(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rl.CacheDenials(newLimiter(t, rl.TokenBucket(1, time.Hour, 10)), 100)
		r := allow(t, l, "k", 10, true)
		allow(t, l, "k", 1, false)
		if err := r.Refund(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		allow(t, l, "k", 5, true)
	})
}

// Without this the penalty would never come: refusals that Redis does not see
// do not count.
func TestDenialsThatABlockCountsReachRedis(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		block := rl.BlockAfter(3, time.Hour, 2*time.Hour)
		l := rl.CacheDenials(newLimiter(t, rl.TokenBucket(1, time.Minute, 1), block), 100)
		allow(t, l, "k", 1, true)
		for range 2 {
			if r := allow(t, l, "k", 1, false); r.Source != rl.SourceRedis {
				t.Fatalf("%+v", r)
			}
		}
		if r := allow(t, l, "k", 1, false); r.Limit != block || r.Source != rl.SourceRedis {
			t.Fatalf("%+v", r)
		}
		if r := allow(t, l, "k", 1, false); r.Limit != block || r.Source != rl.SourceDenyCache {
			t.Fatalf("%+v", r)
		}
	})
}

func TestPoliciesAreNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &primary{Allower: newMemory(t, rl.TokenBucket(1, time.Hour, 5))}
		p.down.Store(true)
		l := rl.CacheDenials(&rl.Fallback{Primary: p, Secondary: rl.Closed}, 100)
		allow(t, l, "k", 1, false)
		p.down.Store(false)
		time.Sleep(300 * time.Millisecond)
		allow(t, l, "k", 1, true)
	})
}

func TestCacheDenialsIsBounded(t *testing.T) {
	m := newMemory(t, rl.TokenBucket(1, time.Hour, 1))
	var asked atomic.Int64
	l := rl.CacheDenials(rl.AllowerFunc(func(ctx ctxType, key string, n int) (rl.Result, error) {
		asked.Add(1)
		return m.AllowN(ctx, key, n)
	}), 320)
	for i := range 5000 {
		allow(t, l, fmt.Sprint(i), 1, true)
		allow(t, l, fmt.Sprint(i), 1, false)
	}
	asked.Store(0)
	for i := range 5000 {
		allow(t, l, fmt.Sprint(i), 1, false)
	}
	if known := 5000 - asked.Load(); known > 320 || known < 1 {
		t.Fatalf("%d denials are remembered, the bound is 320", known)
	}
	if _, err := rl.CacheDenials(m, 0).AllowN(t.Context(), "k", 1); err == nil || !strings.Contains(err.Error(), "maxKeys is 0") {
		t.Fatal(err)
	}
}
