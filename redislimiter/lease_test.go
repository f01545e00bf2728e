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

type ctxType = context.Context

// A key that is not hot is decided as without a lease.
func TestLeaseConforms(t *testing.T) {
	limitertest.Exercise(t, func(tb testing.TB, limits ...rl.Limit) rl.Allower {
		return rl.Lease(newLimiter(tb, limits...).(rl.Leaser), 1)
	})
}

// Hot keys: several instances with leases never spend more than Redis granted,
// and not more than the limit and a batch each within any span.
func TestLeasesSpendWhatWasGranted(t *testing.T) {
	for _, a := range limitertest.Algorithms()[:4] { // the others are stored as these
		synctest.Test(t, func(t *testing.T) {
			const instances, batch, limit = 3, 20, 300
			f, inner := slowLimiter(t, a.Make(limit, time.Second))
			var spent [instances]atomic.Int64
			var wg sync.WaitGroup
			start := time.Now()
			for i := range instances {
				l := rl.Lease(inner, batch)
				for range 8 {
					wg.Go(func() {
						for time.Since(start) < 2*time.Second {
							if allowAny(t, l, "k", 1).Allowed {
								spent[i].Add(1)
							}
							time.Sleep(16 * time.Millisecond)
						}
					})
				}
			}
			wg.Wait()
			sum := int64(0)
			for i := range spent {
				sum += spent[i].Load()
			}
			// Two seconds and the burst at the start, or three windows, and a
			// batch for each instance.
			if sum > 3*limit+instances*batch {
				t.Errorf("%s: spent %d in 2 s at %d per second", a.Name, sum, limit)
			}
			if sum < limit {
				t.Errorf("%s: spent only %d in 2 s at %d per second", a.Name, sum, limit)
			}
			if trips := f.sent.Load(); a.Name == "TokenBucket" && trips > sum {
				t.Errorf("%d trips for %d units", trips, sum)
			}
		})
	}
}

func TestLeasedUnitsNeedNoTrip(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, inner := slowLimiter(t, rl.TokenBucket(100_000, time.Second, 100_000))
		f.before = nil
		l := rl.Lease(inner, 1000)
		leased := 0
		for range 20_000 {
			if r := allow(t, l, "k", 1, true); r.Source == rl.SourceLease {
				leased++
			}
			time.Sleep(50 * time.Microsecond)
		}
		if trips := f.sent.Load(); trips > 500 || leased < 19_000 {
			t.Fatalf("%d trips, %d of 20000 leased", trips, leased)
		}
		// Silence: what was taken ahead lapses, and no more than a batch of it.
		time.Sleep(time.Second)
		if r := allow(t, l, "k", 1, true); r.Source != rl.SourceRedis {
			t.Fatalf("%+v", r)
		}
	})
}

func TestLeaseIsExactInTotal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, inner := slowLimiter(t, rl.FixedWindow(1000, time.Hour))
		l := rl.Lease(inner, 30)
		admitted := 0
		for range 3_000 {
			if allowAny(t, l, "k", 1).Allowed {
				admitted++
			}
			time.Sleep(100 * time.Microsecond)
		}
		if admitted != 1000 {
			t.Fatalf("admitted %d of 1000", admitted)
		}
	})
}

func TestLeaseHangsNoLongerThanItsLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f, inner := slowLimiter(t, rl.TokenBucket(100_000, time.Second, 100_000))
		f.before = nil
		l := rl.Lease(inner, 10)
		for range 200 {
			allow(t, l, "k", 1, true)
			time.Sleep(100 * time.Microsecond)
		}
		hang, release := stall(t)
		defer release()
		f.before = hang
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() {
				start := time.Now()
				for {
					_, err := l.AllowN(t.Context(), "k", 1)
					if errors.Is(err, rl.ErrUnavailable) {
						break
					}
				}
				if took := time.Since(start); took > 2*rl.DefaultTimeout {
					t.Errorf("took %v", took)
				}
			})
		}
		wg.Wait()
	})
}

func TestLeaseArguments(t *testing.T) {
	m := newMemory(t, rl.TokenBucket(1, time.Hour, 1)).(rl.Leaser)
	if _, err := rl.Lease(m, 0).AllowN(t.Context(), "k", 1); err == nil || !strings.Contains(err.Error(), "batch is 0") {
		t.Fatal(err)
	}
	if _, err := rl.Lease(m, 5).AllowN(t.Context(), "k", -1); err == nil || !strings.Contains(err.Error(), "n is -1") {
		t.Fatal(err)
	}
}
