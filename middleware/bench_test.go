package middleware_test

import (
	"log/slog"
	"net/http"
	"testing"
	"time"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A discard is a ResponseWriter that costs nothing, so that what is measured
// is the middleware.
type discard struct{ h http.Header }

func (d *discard) Header() http.Header         { return d.h }
func (d *discard) Write(b []byte) (int, error) { return len(b), nil }
func (d *discard) WriteHeader(int)             {}

// bare sets a header as most handlers do, which makes the map that the
// middleware writes into.
var bare = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
	w.Header()["Content-Type"] = plain
})

var plain = []string{"text/plain"}

// What the middleware adds is each line minus "bare" minus "limiter alone".
func BenchmarkMiddleware(b *testing.B) {
	log := slog.Default()
	slog.SetDefault(slog.New(slog.DiscardHandler)) // one client is all there is
	b.Cleanup(func() { slog.SetDefault(log) })
	memory, err := redislimiter.NewMemory("bench", redislimiter.TokenBucket(1e9, time.Second, 1e9))
	if err != nil {
		b.Fatal(err)
	}
	trusted, err := middleware.ParseProxies("10.0.0.0/8")
	if err != nil {
		b.Fatal(err)
	}
	get := func(remote, header string) *http.Request {
		r, _ := http.NewRequest(http.MethodGet, "/", http.NoBody)
		r.RemoteAddr = remote
		if header != "" {
			r.Header.Set("X-Forwarded-For", header)
		}
		return r
	}
	direct := get("203.0.113.9:4711", "")
	run := func(name string, h http.Handler, r *http.Request) {
		b.Run(name, func(b *testing.B) {
			w := &discard{h: http.Header{}}
			b.ReportAllocs()
			for b.Loop() {
				clear(w.h)
				h.ServeHTTP(w, r)
			}
		})
	}
	run("bare", bare, direct)
	b.Run("limiter alone", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			if r, err := memory.Allow(direct.Context(), "203.0.113.9"); err != nil || !r.Allowed {
				b.Fatal(r, err)
			}
		}
	})
	with := func(key middleware.KeyFunc, opts *middleware.Options) http.Handler {
		return middleware.New(memory, key, opts)(bare)
	}
	run("Const", with(middleware.Const("all"), nil), direct)
	run("ByIP direct", with(middleware.ByIP(nil), nil), direct)
	run("ByIP proxied", with(middleware.ByIP(trusted), nil), get("10.0.0.2:443", "198.51.100.7"))
	run("ByIP IPv6", with(middleware.ByIP(trusted), nil), get("[2001:db8:1:2::1]:443", ""))
	both := middleware.Combine(middleware.RateLimitFields, middleware.XRateLimit)
	run("two kinds of headers", with(middleware.ByIP(nil), &middleware.Options{Headers: both}), direct)
	run("no headers", with(middleware.ByIP(nil), &middleware.Options{Headers: middleware.NoHeaders}), direct)
}
