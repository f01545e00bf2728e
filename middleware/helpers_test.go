package middleware_test

import (
	"bytes"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// memory is a limiter that admits limit requests an hour.
func memory(t testing.TB, name string, limit int) *redislimiter.Memory {
	t.Helper()
	m, err := redislimiter.NewMemory(name, redislimiter.SlidingWindowLog(limit, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// answer is a limiter that always answers the same.
func answer(r redislimiter.Result, err error) redislimiter.Allower {
	return redislimiter.AllowerFunc(func(context.Context, string, int) (redislimiter.Result, error) { return r, err })
}

// refusal is the result of a refused request, by a limit of 5 a minute.
func refusal(name string, wait time.Duration) redislimiter.Result {
	limit := redislimiter.SlidingWindowLog(5, time.Minute)
	return redislimiter.Result{
		Name: name, Limit: limit, Limits: []redislimiter.Limit{limit},
		RetryAfter: wait, ResetAfter: time.Minute, Source: redislimiter.SourceRedis,
	}
}

// admission is the result of an admitted request.
func admission(name string, remaining int, reset time.Duration) redislimiter.Result {
	r := refusal(name, 0)
	r.Allowed, r.Remaining, r.ResetAfter = true, remaining, reset
	return r
}

// reached is a handler that counts how often it is called.
type reached int

func (n *reached) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	*n++
	w.Write([]byte("ok"))
}

// from makes a request of a peer; headers are pairs of name and value, and a
// name can come several times.
func from(peer string, headers ...string) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.RemoteAddr = peer
	for i := 0; i < len(headers); i += 2 {
		r.Header.Add(headers[i], headers[i+1])
	}
	return r
}

// serve sends one request through a handler.
func serve(h http.Handler, r *http.Request) *http.Response {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w.Result()
}

func parse(t testing.TB, cidrs ...string) middleware.Proxies {
	t.Helper()
	p, err := middleware.ParseProxies(cidrs...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// logged collects what is logged while a test runs.
func logged(t *testing.T) *bytes.Buffer {
	var b bytes.Buffer
	before := slog.Default()
	slog.SetDefault(slog.New(slog.NewTextHandler(&b, nil)))
	t.Cleanup(func() { slog.SetDefault(before) })
	return &b
}

// mustPanic calls f and checks that the panic names what is wrong.
func mustPanic(t *testing.T, text string, f func()) {
	t.Helper()
	defer func() {
		t.Helper()
		if got, _ := recover().(string); !strings.HasPrefix(got, "middleware: ") || !strings.Contains(got, text) {
			t.Errorf("panic %q, want one with %q", got, text)
		}
	}()
	f()
}

func sorted(s []string) []string {
	slices.Sort(s)
	return s
}
