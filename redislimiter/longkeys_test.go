package redislimiter_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A key that is held as its hash is the same one to every decorator and to every
// operation.
func TestLongKeys(t *testing.T) {
	long := strings.Repeat("k", 200)
	synctest.Test(t, func(t *testing.T) {
		_, client := limitertest.Redis(t)
		l := remade(t, client, rl.FixedWindow(5, time.Hour))
		memory := newMemory(t, rl.FixedWindow(5, time.Hour))
		for _, inner := range []rl.Allower{l, memory} {
			seen := ""
			cached := rl.CacheDenials(rl.Observe(inner, func(_ context.Context, e rl.Event) { seen = e.Key }), 1000)
			made := allow(t, cached, long, 5, true)
			if seen != long {
				t.Errorf("%T was asked about another key, of %d bytes", inner, len(seen))
			}
			allow(t, inner, long, 1, false) // not a second quota
			allow(t, cached, long, 1, false)
			if err := made.Refund(t.Context(), 5); err != nil {
				t.Fatal(err)
			}
			if r := allow(t, cached, long, 1, true); r.Remaining != 4 {
				t.Errorf("%T: %d remain of 5 that were given back, less one", inner, r.Remaining)
			}
		}
		if err := l.Reset(t.Context(), long); err != nil {
			t.Fatal(err)
		}
		allow(t, rl.CacheDenials(l, 1000), long, 5, true)
	})
}

// What AllowAll gives back is seen by the caches that it went through.
func TestRefundOfAllOverACache(t *testing.T) {
	for _, n := range []int{1, 2} {
		var charges []rl.Charge
		for range n {
			charges = append(charges, rl.Charge{Limiter: rl.CacheDenials(newMemory(t, rl.FixedWindow(5, time.Hour)), 1000), Key: "k", N: 5})
		}
		r, err := rl.AllowAll(t.Context(), charges...)
		if err != nil || !r.Allowed {
			t.Fatal(r, err)
		}
		for _, c := range charges {
			allow(t, c.Limiter, "k", 1, false)
		}
		if err := r.Refund(t.Context(), 5); err != nil {
			t.Fatal(err)
		}
		for _, c := range charges {
			allow(t, c.Limiter, "k", 1, true)
		}
	}
}

// A client that cannot be compared with others is nobody else's.
type labelled struct {
	*redis.Client
	labels []string
}

func TestAllowAllWithClientsThatCannotBeCompared(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := limitertest.Redis(t)
		rdb := labelled{client, []string{"a"}}
		a, b := remade(t, rdb, rl.FixedWindow(1, time.Hour)), remade(t, rdb, rl.FixedWindow(1, time.Hour))
		r, err := rl.AllowAll(t.Context(), rl.Charge{Limiter: a, Key: "j", N: 1}, rl.Charge{Limiter: b, Key: "k", N: 1})
		if err != nil || !r.Allowed {
			t.Fatal(r, err)
		}
	})
}

// While Primary rests a caller still hears that what he asks for is never allowed.
func TestAFallbackThatRestsChecksN(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, client := limitertest.Redis(t)
		l := remade(t, client, rl.TokenBucket(1, time.Second, 30), rl.FixedWindow(10, time.Hour))
		share := newMemory(t, rl.FixedWindow(10, time.Hour).Share(2))
		server.SetError("ERR broken")
		for _, secondary := range []rl.Allower{rl.Open, share} {
			f := &rl.Fallback{Primary: l, Secondary: secondary, Failures: 1, Logger: slog.New(slog.DiscardHandler)}
			allowAny(t, f, "k", 1)
			if !f.Resting() {
				t.Fatal("Primary is still asked")
			}
			if r, err := f.AllowN(t.Context(), "k", 11); !errors.Is(err, rl.ErrNeverAllowed) || r.Allowed || r.Name != "test" {
				t.Errorf("11 of 10: %+v, %v", r, err)
			}
			if r, err := f.AllowN(t.Context(), "k", -1); err == nil || r.Allowed {
				t.Errorf("n = -1: %+v, %v", r, err)
			}
			if r := allowAny(t, f, "k", 10); !r.Degraded {
				t.Errorf("10 of 10: %+v", r)
			}
		}
	})
}
