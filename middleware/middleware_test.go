package middleware_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// What a request is answered, by what the limiter or the key function says.
func TestAnswers(t *testing.T) {
	const (
		quota    = "https://iana.org/assignments/http-problem-types#quota-exceeded"
		capacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	)
	fails := func(err error) middleware.KeyFunc {
		return func(*http.Request) (string, error) { return "", err }
	}
	ok := middleware.Const("k")
	closed, _ := redislimiter.Closed.AllowN(context.Background(), "k", 1)
	tests := []struct {
		name    string
		limiter redislimiter.Allower
		key     middleware.KeyFunc
		cost    int
		status  int
		retry   string // Retry-After
		kind    string // the problem's type
	}{
		{"admitted", answer(admission("api", 3, time.Second), nil), ok, 1, 200, "", ""},
		{"refused", answer(refusal("api", 36100*time.Millisecond), nil), ok, 1, 429, "37", quota},
		{"refused, a wait of 0.4 s", answer(refusal("api", 400*time.Millisecond), nil), ok, 1, 429, "1", quota},
		{"refused, just refilled", answer(refusal("api", 0), nil), ok, 1, 429, "1", quota},
		{"refused, exactly two seconds", answer(refusal("api", 2*time.Second), nil), ok, 1, 429, "2", quota},
		{"a zero result refuses", answer(redislimiter.Result{}, nil), ok, 1, 429, "1", quota},
		{"fails closed", redislimiter.Closed, ok, 1, 503, "1", capacity},
		{"fails closed behind a decorator", answer(closed, nil), ok, 1, 503, "1", capacity},
		{"fails open", redislimiter.Open, ok, 1, 200, "", ""},
		{"no decision", answer(redislimiter.Result{}, redislimiter.ErrUnavailable), ok, 1, 503, "1", capacity},
		{"no decision, but the result says allowed", answer(admission("api", 1, 0), redislimiter.ErrUncertain), ok, 1, 503, "1", capacity},
		{"an error nobody knows", answer(redislimiter.Result{}, errors.New("plan not found")), ok, 1, 503, "1", capacity},
		{"the client left", answer(redislimiter.Result{}, context.Canceled), ok, 1, 503, "1", capacity},
		{"more than can ever fit", memory(t, "api", 5), ok, 6, 413, "", "about:blank"},
		{"a negative cost", memory(t, "api", 5), ok, -1, 500, "", "about:blank"},
		{"no key", memory(t, "api", 5), fails(middleware.ErrNoKey), 1, 400, "", "about:blank"},
		{"a bad key", memory(t, "api", 5), fails(middleware.ErrBadKey), 1, 400, "", "about:blank"},
		{"the key function fails", memory(t, "api", 5), fails(errors.New("database")), 1, 500, "", "about:blank"},
		{"an empty key", memory(t, "api", 5), fails(nil), 1, 500, "", "about:blank"},
		{"the key function says skip", answer(refusal("api", time.Second), nil), fails(middleware.Skip), 1, 200, "", ""},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			logged(t)
			var next reached
			h := middleware.New(test.limiter, test.key, &middleware.Options{
				Cost: func(*http.Request) int { return test.cost },
			})(&next)
			resp := serve(h, from("203.0.113.9:1"))
			if resp.StatusCode != test.status || resp.Header.Get("Retry-After") != test.retry {
				t.Errorf("status %d and Retry-After %q, want %d and %q",
					resp.StatusCode, resp.Header.Get("Retry-After"), test.status, test.retry)
			}
			if (next == 1) != (test.status == 200) {
				t.Errorf("the handler was called %d times", next)
			}
			if noStore := resp.Header.Get("Cache-Control") == "no-store"; noStore != (test.status >= 400 && test.status != 429) {
				t.Errorf("Cache-Control %q", resp.Header.Get("Cache-Control"))
			}
			if test.kind != "" {
				checkProblem(t, resp, test.kind)
			}
		})
	}
}

// checkProblem reads the body as clients do.
func checkProblem(t *testing.T, resp *http.Response, kind string) {
	t.Helper()
	var body struct {
		Type, Title, Detail string
		Status              int
		RetryAfter          json.Number `json:"retry_after"`
		Violated            []string    `json:"violated-policies"`
	}
	raw, err := io.ReadAll(resp.Body)
	if err := errors.Join(err, json.Unmarshal(raw, &body)); err != nil {
		t.Fatalf("%v: %q", err, raw)
	}
	if resp.Header.Get("Content-Type") != "application/problem+json" || resp.ContentLength != int64(len(raw)) {
		t.Errorf("headers %v for %d bytes", resp.Header, len(raw))
	}
	if body.Type != kind || body.Status != resp.StatusCode || body.Title == "" || body.Detail == "" {
		t.Errorf("body %s", raw)
	}
	if body.RetryAfter.String() != resp.Header.Get("Retry-After") {
		t.Errorf("retry_after %q, Retry-After %q", body.RetryAfter, resp.Header.Get("Retry-After"))
	}
	named := resp.StatusCode == 429 && resp.Header.Get("RateLimit") != ""
	if named != (len(body.Violated) == 1 && body.Violated[0] == "api") {
		t.Errorf("violated-policies %q", body.Violated)
	}
}

func TestPlainText(t *testing.T) {
	opts := &middleware.Options{Denied: middleware.DeniedText, Failed: middleware.FailedText}
	for _, test := range []struct {
		limiter redislimiter.Allower
		status  int
		text    string
	}{
		{answer(refusal("api", time.Minute), nil), 429, "Too many requests. Try again in 60 seconds.\n"},
		{redislimiter.Closed, 503, "The request cannot be admitted at the moment. Try again soon.\n"},
	} {
		resp := serve(middleware.New(test.limiter, middleware.Const("k"), opts)(new(reached)), from("203.0.113.9:1"))
		body, _ := io.ReadAll(resp.Body)
		if resp.StatusCode != test.status || string(body) != test.text || resp.Header.Get("Retry-After") == "" {
			t.Errorf("%d %q %v", resp.StatusCode, body, resp.Header)
		}
		if noStore := resp.Header.Get("Cache-Control") == "no-store"; noStore != (test.status == 503) {
			t.Errorf("%d: Cache-Control %q", test.status, resp.Header.Get("Cache-Control"))
		}
	}
}

func TestCustomAnswers(t *testing.T) {
	var heard error
	opts := &middleware.Options{
		Denied: func(w http.ResponseWriter, _ *http.Request, r redislimiter.Result) {
			w.WriteHeader(420)
			io.WriteString(w, "Enhance your calm, "+r.Name)
		},
		Failed: func(w http.ResponseWriter, _ *http.Request, err error) {
			heard = err
			w.WriteHeader(599)
		},
	}
	resp := serve(middleware.New(answer(refusal("api", time.Minute), nil), middleware.Const("k"), opts)(new(reached)), from("203.0.113.9:1"))
	if body, _ := io.ReadAll(resp.Body); resp.StatusCode != 420 || string(body) != "Enhance your calm, api" || resp.Header.Get("Retry-After") != "60" {
		t.Errorf("%d %q %v", resp.StatusCode, body, resp.Header)
	}
	resp = serve(middleware.New(redislimiter.Closed, middleware.Const("k"), opts)(new(reached)), from("203.0.113.9:1"))
	if resp.StatusCode != 599 || resp.Header.Get("Retry-After") != "1" || !errors.Is(heard, redislimiter.ErrUnavailable) {
		t.Errorf("%d %v, error %v", resp.StatusCode, resp.Header, heard)
	}
}

// What Failed hears is what the key function or the limiter said.
func TestFailedHearsTheError(t *testing.T) {
	logged(t)
	mine := errors.New("mine")
	for _, err := range []error{middleware.ErrNoKey, middleware.ErrBadKey, mine} {
		var heard error
		opts := &middleware.Options{Failed: func(_ http.ResponseWriter, _ *http.Request, err error) { heard = err }}
		serve(middleware.New(redislimiter.Open, fixed("", err), opts)(new(reached)), from("203.0.113.9:1"))
		if !errors.Is(heard, err) || heard.Error() != err.Error() {
			t.Errorf("the key function says %v, heard %v", err, heard)
		}
		serve(middleware.New(answer(redislimiter.Result{}, err), middleware.Const("k"), opts)(new(reached)), from("203.0.113.9:1"))
		if !errors.Is(heard, err) {
			t.Errorf("the limiter says %v, heard %v", err, heard)
		}
	}
}

func TestCost(t *testing.T) {
	l := memory(t, "api", 5)
	h := middleware.New(l, middleware.ByIP(nil), &middleware.Options{
		Cost: func(r *http.Request) int { return len(r.URL.Query()["id"]) },
	})(new(reached))
	for i, step := range []struct {
		query  string
		status int
		left   string
	}{
		{"?id=1&id=2&id=3", 200, `"api";r=2;t=3600`},
		{"?id=1&id=2&id=3", 429, ""}, // and takes nothing
		{"?id=1&id=2", 200, `"api";r=0;t=3600`},
		{"", 429, ""}, // takes nothing, but nothing is left
	} {
		r := httptest.NewRequest(http.MethodGet, "/"+step.query, nil)
		resp := serve(h, r)
		if resp.StatusCode != step.status || step.left != "" && resp.Header.Get("RateLimit") != step.left {
			t.Errorf("step %d: %d, %s", i, resp.StatusCode, resp.Header.Get("RateLimit"))
		}
	}
}

func TestSkip(t *testing.T) {
	preflight := from("203.0.113.9:1", "Origin", "https://app.example", "Access-Control-Request-Method", "PUT")
	preflight.Method = http.MethodOptions
	options := from("203.0.113.9:1", "Origin", "https://app.example")
	options.Method = http.MethodOptions
	forged := from("203.0.113.9:1", "Origin", "https://app.example", "Access-Control-Request-Method", "PUT")
	health := httptest.NewRequest(http.MethodGet, "/healthz", nil)
	byPath := func(r *http.Request) bool { return r.URL.Path == "/healthz" }
	tests := []struct {
		name   string
		skip   func(*http.Request) bool
		r      *http.Request
		passes bool
	}{
		{"a preflight", nil, preflight, true},
		{"OPTIONS that is none", nil, options, false},
		{"GET that looks like one", nil, forged, false},
		{"a health check", byPath, health, true},
		{"another path", byPath, from("203.0.113.9:1"), false},
		{"a function of one's own replaces the default", byPath, preflight, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			l := answer(refusal("api", time.Second), nil)
			resp := serve(middleware.New(l, middleware.ByIP(nil), &middleware.Options{Skip: test.skip})(new(reached)), test.r)
			if passed := resp.StatusCode == 200; passed != test.passes {
				t.Errorf("status %d", resp.StatusCode)
			}
			if test.passes && resp.Header.Get("RateLimit") != "" {
				t.Errorf("headers %v", resp.Header)
			}
		})
	}
}

// Preflights pass without being counted, however many.
func TestPreflightsAreNotCounted(t *testing.T) {
	h := middleware.New(memory(t, "api", 1), middleware.ByIP(nil), nil)(new(reached))
	preflight := from("203.0.113.9:1", "Origin", "https://app.example", "Access-Control-Request-Method", "PUT")
	preflight.Method = http.MethodOptions
	for range 3 {
		if resp := serve(h, preflight); resp.StatusCode != 200 {
			t.Errorf("status %d", resp.StatusCode)
		}
	}
	if resp := serve(h, from("203.0.113.9:1")); resp.StatusCode != 200 {
		t.Errorf("the request itself: status %d", resp.StatusCode)
	}
}

func TestNewPanics(t *testing.T) {
	mustPanic(t, "l is nil", func() { middleware.New(nil, middleware.Const("k"), nil) })
	mustPanic(t, "key is nil", func() { middleware.New(redislimiter.Open, nil, nil) })
}

// The ResponseWriter reaches the handler as it is.
func TestNoWrapping(t *testing.T) {
	w := httptest.NewRecorder()
	h := middleware.New(redislimiter.Open, middleware.Const("k"), nil)(http.HandlerFunc(func(got http.ResponseWriter, _ *http.Request) {
		if got != http.ResponseWriter(w) {
			t.Errorf("the handler got a %T", got)
		}
	}))
	h.ServeHTTP(w, from("203.0.113.9:1"))
}

// What a decision costs beside the limiter: at most two allocations.
func TestAllocations(t *testing.T) {
	logged(t)
	l := answer(admission("api", 3, time.Second), nil)
	ten := parse(t, "10.0.0.0/8")
	for name, r := range map[string]*http.Request{
		"IPv4":    from("203.0.113.9:4711"),
		"IPv6":    from("[2001:db8:1:2::1]:4711"),
		"proxied": from("10.0.0.2:1", xff, "198.51.100.7"),
	} {
		h := middleware.New(l, middleware.ByIP(ten), nil)(bare)
		w := &discard{h: http.Header{}}
		n := testing.AllocsPerRun(1000, func() {
			clear(w.h)
			h.ServeHTTP(w, r)
		})
		if n > 2 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
}
