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

	"github.com/redis/go-redis/v9"

	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A primary that fails while down is set, after taking its time.
type primary struct {
	rl.Allower
	down  atomic.Bool
	takes time.Duration
	asked atomic.Int64
}

func (p *primary) AllowN(ctx context.Context, key string, n int) (rl.Result, error) {
	p.asked.Add(1)
	if p.down.Load() {
		if p.takes > 0 {
			select {
			case <-time.After(p.takes):
			case <-ctx.Done():
			}
		}
		return rl.Result{}, rl.ErrUnavailable
	}
	return p.Allower.AllowN(ctx, key, n)
}

func TestFallbackAnswersForEachPolicy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := rl.TokenBucket(2, time.Hour, 2)
		p := &primary{Allower: newMemory(t, limit)}
		for name, test := range map[string]struct {
			secondary rl.Allower
			admits    int // of five
			source    rl.Source
		}{
			"open":   {rl.Open, 5, rl.SourceOpen},
			"closed": {rl.Closed, 0, rl.SourceClosed},
			"local":  {newMemory(t, limit), 2, rl.SourceMemory},
		} {
			p.down.Store(true)
			f := &rl.Fallback{Primary: p, Secondary: test.secondary}
			admitted := 0
			for range 5 {
				r := allowAny(t, f, "k", 1)
				if r.Allowed {
					admitted++
				}
				if r.Source != test.source || !r.Degraded {
					t.Errorf("%s: %+v", name, r)
				}
			}
			if admitted != test.admits {
				t.Errorf("%s: admitted %d, want %d", name, admitted, test.admits)
			}
			p.down.Store(false)
			time.Sleep(time.Second)
			if r := allowAny(t, f, name, 1); !r.Allowed || r.Degraded {
				t.Errorf("%s, recovered: %+v", name, r)
			}
		}
	})
}

func TestFallbackNamesThePolicyThatCouldNotDecide(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f0, l := flakyLimiter(t)
		f0.before = func(context.Context, int64, redis.Cmder) error { return serverError("OOM command not allowed") }
		f := &rl.Fallback{Primary: l, Secondary: rl.Closed}
		if r := allowAny(t, f, "k", 1); r.Name != "test" || len(r.Limits) != 1 || r.Limit != l.Limits()[0] {
			t.Fatalf("%+v", r)
		}
	})
}

func TestBreakerLeavesPrimaryAloneAndProbesOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &primary{Allower: newMemory(t, rl.TokenBucket(1, time.Hour, 1000)), takes: 50 * time.Millisecond}
		p.down.Store(true)
		var heard atomic.Int64
		f := &rl.Fallback{Primary: p, Secondary: rl.Open, Timeout: 20 * time.Millisecond, OnError: func(error) { heard.Add(1) }}
		start := time.Now()
		for range 5 {
			if f.Resting() {
				t.Fatal("rests before the fifth failure")
			}
			allowAny(t, f, "k", 1)
		}
		if took := time.Since(start); took != 100*time.Millisecond {
			t.Fatalf("five timeouts took %v", took)
		}
		start = time.Now()
		for range 1000 {
			allowAny(t, f, "k", 1)
		}
		if !f.Resting() {
			t.Fatal("does not rest")
		}
		if p.asked.Load() != 5 || time.Since(start) != 0 {
			t.Fatalf("asked %d times, took %v while resting", p.asked.Load(), time.Since(start))
		}
		// Ten seconds of outage under load: a probe each quarter of a second.
		for time.Since(start) < 10*time.Second {
			var wg sync.WaitGroup
			for range 10 {
				wg.Go(func() { allowAny(t, f, "k", 1) })
			}
			wg.Wait()
			time.Sleep(5 * time.Millisecond)
		}
		if probes := p.asked.Load() - 5; probes > 40 || probes < 30 {
			t.Fatalf("%d probes in 10 s", probes)
		}
		if heard.Load() != p.asked.Load() {
			t.Fatalf("OnError heard %d of %d failures", heard.Load(), p.asked.Load())
		}
		// It comes back: all are asked again within the cooldown.
		p.down.Store(false)
		back := time.Now()
		for allowAny(t, f, "k", 1).Degraded {
			time.Sleep(time.Millisecond)
		}
		if took := time.Since(back); took > 350*time.Millisecond {
			t.Fatalf("recovered after %v", took)
		}
		if f.Resting() {
			t.Fatal("still rests")
		}
	})
}

func TestHalfOpenAsksWithOneRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := &primary{Allower: newMemory(t, rl.TokenBucket(1, time.Hour, 1000)), takes: 50 * time.Millisecond}
		p.down.Store(true)
		f := &rl.Fallback{Primary: p, Secondary: rl.Open}
		for range 5 {
			allowAny(t, f, "k", 1)
		}
		time.Sleep(251 * time.Millisecond)
		var wg sync.WaitGroup
		for range 100 {
			wg.Go(func() { allowAny(t, f, "k", 1) })
		}
		wg.Wait()
		if p.asked.Load() != 6 {
			t.Fatalf("%d requests were probes", p.asked.Load()-5)
		}
	})
}

func TestCallersErrorsAreNoFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f0, l := flakyLimiter(t)
		f := &rl.Fallback{Primary: l, Secondary: rl.Open, OnError: func(err error) { t.Errorf("OnError heard %v", err) }}
		for range 10 {
			if _, err := f.AllowN(t.Context(), "k", 11); !errors.Is(err, rl.ErrNeverAllowed) {
				t.Fatalf("n = 11: %v", err)
			}
			if _, err := f.AllowN(t.Context(), "k", -1); err == nil || errors.Is(err, rl.ErrUnavailable) {
				t.Fatalf("n = -1: %v", err)
			}
			ctx, cancel := context.WithCancel(t.Context())
			f0.before = func(context.Context, int64, redis.Cmder) error {
				cancel()
				time.Sleep(10 * time.Millisecond)
				return nil
			}
			if r, err := f.AllowN(ctx, "k", 1); err != context.Canceled || r.Allowed {
				t.Fatalf("cancelled during: %+v, %v", r, err)
			}
			f0.before = nil
			if _, err := f.AllowN(ctx, "k", 1); err != context.Canceled {
				t.Fatalf("cancelled before: %v", err)
			}
		}
		if r := allowAny(t, f, "k", 1); r.Source != rl.SourceRedis {
			t.Fatalf("the breaker counted callers' errors: %+v", r)
		}
		time.Sleep(time.Second) // lets the calls end that nobody waits for
	})
}

func TestSlowRedisIsAnsweredWithinTheBudget(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f0, l := flakyLimiter(t)
		f0.before = func(context.Context, int64, redis.Cmder) error {
			time.Sleep(400 * time.Millisecond)
			return nil
		}
		f := &rl.Fallback{Primary: l, Secondary: rl.Open, Timeout: 25 * time.Millisecond}
		start := time.Now()
		if r := allowAny(t, f, "k", 1); r.Source != rl.SourceOpen || time.Since(start) != 25*time.Millisecond {
			t.Fatalf("%+v after %v", r, time.Since(start))
		}
		// The caller's own deadline is the budget as well.
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
		defer cancel()
		start = time.Now()
		r, err := f.AllowN(ctx, "k", 1)
		if err != nil || r.Source != rl.SourceOpen || time.Since(start) != 10*time.Millisecond {
			t.Fatalf("%+v, %v after %v", r, err, time.Since(start))
		}
		time.Sleep(time.Second)
	})
}

// Callers who leave Primary next to no time get Secondary's answer, and take Primary from nobody else.
func TestHastyCallersAreNoFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f0, l := flakyLimiter(t)
		f0.before = func(context.Context, int64, redis.Cmder) error {
			time.Sleep(5 * time.Millisecond)
			return nil
		}
		f := &rl.Fallback{Primary: l, Secondary: rl.Closed}
		ask := func(within time.Duration) rl.Result {
			ctx, cancel := context.WithTimeout(t.Context(), within)
			defer cancel()
			r, err := f.AllowN(ctx, "k", 1)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		for range 10 {
			if r := ask(2 * time.Millisecond); r.Source != rl.SourceClosed {
				t.Fatalf("%+v", r)
			}
			time.Sleep(10 * time.Millisecond) // its own call comes back
		}
		if r := ask(time.Second); r.Source != rl.SourceRedis || f.Resting() {
			t.Errorf("others get %+v", r)
		}
		f0.before = func(context.Context, int64, redis.Cmder) error { time.Sleep(time.Second); return nil }
		for range 5 {
			ask(60 * time.Millisecond)
		}
		if !f.Resting() {
			t.Error("those that left it enough time do not count")
		}
		time.Sleep(2 * time.Second) // lets the calls end that nobody waits for
	})
}

func TestMoreThanTheShareIsARefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limit := rl.TokenBucket(9, time.Second, 9)
		p := &primary{Allower: newMemory(t, limit)}
		p.down.Store(true)
		f := &rl.Fallback{Primary: p, Secondary: newMemory(t, limit.Share(3))}
		allow(t, f, "k", 3, true)
		if r := allow(t, f, "k", 4, false); r.RetryAfter <= 0 {
			t.Fatalf("%+v", r)
		}
	})
}

func TestOnErrorTellsConfigurationFromOutage(t *testing.T) {
	for text, configuration := range map[string]bool{
		"WRONGPASS invalid username-password pair": true, "LOADING Redis is loading": false,
	} {
		synctest.Test(t, func(t *testing.T) {
			f0, l := flakyLimiter(t)
			f0.before = func(context.Context, int64, redis.Cmder) error { return serverError(text) }
			var heard error
			f := &rl.Fallback{Primary: l, Secondary: rl.Closed, OnError: func(err error) { heard = err }}
			allow(t, f, "k", 1, false)
			if errors.Is(heard, rl.ErrMisconfigured) != configuration || !errors.Is(heard, rl.ErrUnavailable) {
				t.Fatalf("%s: heard %v", text, heard)
			}
		})
	}
}

func TestInvalidFallback(t *testing.T) {
	m := newMemory(t, rl.TokenBucket(1, time.Second, 1))
	for field, f := range map[string]*rl.Fallback{
		"Primary":   {Secondary: m},
		"Secondary": {Primary: m},
		"Timeout":   {Primary: m, Secondary: m, Timeout: -1},
		"Cooldown":  {Primary: m, Secondary: m, Cooldown: -1},
		"Failures":  {Primary: m, Secondary: m, Failures: -1},
	} {
		if r, err := f.Allow(t.Context(), "k"); err == nil || r.Allowed || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %+v, %v", field, r, err)
		}
	}
}
