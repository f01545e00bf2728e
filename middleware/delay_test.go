package middleware_test

import (
	"context"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// What a leaky bucket admits reaches the handler one by one.
func TestDelay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := redislimiter.NewMemory("queue", redislimiter.LeakyBucket(1, time.Second, 3))
		if err != nil {
			t.Fatal(err)
		}
		start := time.Now()
		h := middleware.New(l, middleware.Const("k"), nil)(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Handled", time.Since(start).String())
		}))
		for i, want := range []string{"0s", "1s", "2s", ""} { // the fourth finds the queue full
			go func() {
				if got := serve(h, from("203.0.113.9:1")).Header.Get("Handled"); got != want {
					t.Errorf("request %d handled after %q, want %q", i, got, want)
				}
			}()
			synctest.Wait()
		}
		time.Sleep(time.Minute)
	})
}

// A client that leaves while it waits does not reach the handler, and its place
// is free again.
func TestDelayClientLeaves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := redislimiter.NewMemory("queue", redislimiter.LeakyBucket(1, time.Second, 3))
		if err != nil {
			t.Fatal(err)
		}
		var next reached
		h := middleware.New(l, middleware.Const("k"), nil)(&next)
		serve(h, from("203.0.113.9:1"))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second/2)
		defer cancel()
		if resp := serve(h, from("203.0.113.9:1").WithContext(ctx)); resp.StatusCode != 503 || next != 1 {
			t.Errorf("status %d, the handler was called %d times", resp.StatusCode, next)
		}
		if look, err := l.AllowN(t.Context(), "k", 0); err != nil || look.Remaining != 2 {
			t.Errorf("%d places are free, want 2 (%v)", look.Remaining, err)
		}
	})
}

// A shadowed limiter refuses nobody.
func TestShadow(t *testing.T) {
	l := redislimiter.Shadow(memory(t, "api", 1))
	opts := &middleware.Options{Headers: middleware.Combine(middleware.RateLimitFields, middleware.ShadowHeader)}
	h := middleware.New(memory(t, "out", 2), middleware.Const("k"), nil)(middleware.New(l, middleware.Const("k"), opts)(new(reached)))
	for i, want := range []struct {
		status         int
		shadowed, says string
	}{{200, "", `"api";r=0;t=3600`}, {200, "true", `"api";r=0;t=3600`}, {429, "", `"out";r=0;t=3600`}} {
		resp := serve(h, from("203.0.113.9:1"))
		if resp.StatusCode != want.status || resp.Header.Get("X-RateLimit-Shadowed") != want.shadowed || resp.Header.Get("RateLimit") != want.says {
			t.Errorf("request %d: %d, %v", i, resp.StatusCode, resp.Header)
		}
	}
}
