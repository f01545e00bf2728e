package middleware_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// several is a result of a limiter with three rules, about the second.
func several() redislimiter.Result {
	limits := []redislimiter.Limit{
		redislimiter.TokenBucket(10, time.Second, 20),
		redislimiter.SlidingWindowLog(100, time.Minute),
		redislimiter.SlidingWindowLog(5, 1500*time.Millisecond),
	}
	return redislimiter.Result{
		Allowed: true, Name: "api", Limit: limits[1], Limits: limits,
		Remaining: 7, ResetAfter: 59100 * time.Millisecond, Source: redislimiter.SourceRedis,
	}
}

func TestHeaders(t *testing.T) {
	admitted := admission("login", 4, 36100*time.Millisecond)
	refused := refusal("login", 300*time.Millisecond)
	negative := admission("login", -2, -time.Second)
	shadowed, _ := redislimiter.Shadow(answer(refused, nil)).AllowN(t.Context(), "k", 1)
	blocked := several()
	blocked.Limits = []redislimiter.Limit{blocked.Limits[1], redislimiter.BlockAfter(10, time.Minute, time.Hour)}
	blocked.Allowed, blocked.Remaining, blocked.Limit, blocked.RetryAfter = false, 0, blocked.Limits[1], time.Hour
	// What virtual time says: a bubble's clock begins with the year 2000.
	const epoch = 946684800
	tests := []struct {
		name    string
		headers middleware.Headers
		result  redislimiter.Result
		want    []string // name: value
	}{
		{"the default", nil, admitted, []string{`Ratelimit: "login";r=4;t=37`, `Ratelimit-Policy: "login";q=5;w=60`}},
		{"the default by name", middleware.RateLimitFields, admitted, []string{`Ratelimit: "login";r=4;t=37`, `Ratelimit-Policy: "login";q=5;w=60`}},
		{"refused: t is Retry-After", nil, refused, []string{`Ratelimit: "login";r=0;t=1`, `Ratelimit-Policy: "login";q=5;w=60`}},
		{"let through by Shadow", nil, shadowed, []string{`Ratelimit: "login";r=0;t=60`, `Ratelimit-Policy: "login";q=5;w=60`}},
		{"let through by Shadow, marked", middleware.ShadowHeader, shadowed, []string{"X-Ratelimit-Shadowed: true"}},
		{"admitted without Shadow", middleware.ShadowHeader, admitted, nil},
		{"blocked", nil, blocked, []string{`Ratelimit: "api.block";r=0;t=3600`, `Ratelimit-Policy: "api";q=100;w=60`}},
		{"blocked, three fields", middleware.RateLimitTriple, blocked, []string{"Ratelimit-Limit: 100", "Ratelimit-Remaining: 0", "Ratelimit-Reset: 3600"}},
		{"never negative", nil, negative, []string{`Ratelimit: "login";r=0;t=0`, `Ratelimit-Policy: "login";q=5;w=60`}},
		{"several rules", nil, several(), []string{`Ratelimit: "api.2";r=7;t=60`, `Ratelimit-Policy: "api.1";q=10;w=1, "api.2";q=100;w=60, "api.3";q=5`}},
		{"three fields", middleware.RateLimitTriple, admitted, []string{"Ratelimit-Limit: 5", "Ratelimit-Remaining: 4", "Ratelimit-Reset: 37"}},
		{"three fields, refused", middleware.RateLimitTriple, refused, []string{"Ratelimit-Limit: 5", "Ratelimit-Remaining: 0", "Ratelimit-Reset: 1"}},
		{"three fields, never negative", middleware.RateLimitTriple, negative, []string{"Ratelimit-Limit: 5", "Ratelimit-Remaining: 0", "Ratelimit-Reset: 0"}},
		{"X, delta", middleware.XRateLimit, admitted, []string{"X-Ratelimit-Limit: 5", "X-Ratelimit-Remaining: 4", "X-Ratelimit-Reset: 37"}},
		{"X, epoch", middleware.XRateLimitEpoch, admitted, []string{"X-Ratelimit-Limit: 5", "X-Ratelimit-Remaining: 4", "X-Ratelimit-Reset: 946684837"}},
		{"X, epoch, refused", middleware.XRateLimitEpoch, refused, []string{"X-Ratelimit-Limit: 5", "X-Ratelimit-Remaining: 0", "X-Ratelimit-Reset: 946684801"}},
		{"none", middleware.NoHeaders, admitted, nil},
		{"two kinds", middleware.Combine(middleware.RateLimitTriple, middleware.XRateLimit), admitted, []string{
			"Ratelimit-Limit: 5", "Ratelimit-Remaining: 4", "Ratelimit-Reset: 37",
			"X-Ratelimit-Limit: 5", "X-Ratelimit-Remaining: 4", "X-Ratelimit-Reset: 37"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				if now := time.Now().Unix(); now != epoch {
					t.Fatalf("the clock begins at %d", now)
				}
				h := middleware.New(answer(test.result, nil), middleware.Const("k"), &middleware.Options{Headers: test.headers})(bare)
				var got []string
				for name, values := range serve(h, from("203.0.113.9:1")).Header {
					if strings.Contains(name, "Ratelimit") {
						got = append(got, name+": "+strings.Join(values, " AND "))
					}
				}
				slices.Sort(got)
				slices.Sort(test.want)
				if !slices.Equal(got, test.want) {
					t.Errorf("\n got %q\nwant %q", got, test.want)
				}
			})
		})
	}
}

// What the fields say is what a parser of structured fields makes of them.
func TestFieldsParse(t *testing.T) {
	h := http.Header{}
	middleware.RateLimitFields(h, several())
	policies, err := httpsfv.UnmarshalList(h.Values("RateLimit-Policy"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []struct {
		name string
		q    int64
		w    any
	}{{"api.1", 10, int64(1)}, {"api.2", 100, int64(60)}, {"api.3", 5, nil}} {
		item := policies[i].(httpsfv.Item)
		q, _ := item.Params.Get("q")
		w, _ := item.Params.Get("w")
		if item.Value != want.name || q != want.q || w != want.w {
			t.Errorf("%v: q=%v w=%v", item.Value, q, w)
		}
	}
	limits, err := httpsfv.UnmarshalList(h.Values("RateLimit"))
	if err != nil || len(limits) != 1 {
		t.Fatal(limits, err)
	}
	item := limits[0].(httpsfv.Item)
	r, _ := item.Params.Get("r")
	seconds, _ := item.Params.Get("t")
	if item.Value != "api.2" || r != int64(7) || seconds != int64(60) {
		t.Errorf("%v: r=%v t=%v", item.Value, r, seconds)
	}
}

// A result of an AllowerFunc may name no limiter: there is nothing to say then.
func TestNoNameNoFields(t *testing.T) {
	r := redislimiter.Result{Allowed: true, Remaining: 3}
	resp := serve(middleware.New(answer(r, nil), middleware.Const("k"), nil)(bare), from("203.0.113.9:1"))
	if len(resp.Header) != 1 {
		t.Errorf("headers %v", resp.Header)
	}
	h := http.Header{}
	middleware.Combine(middleware.RateLimitFields, middleware.RateLimitTriple, middleware.XRateLimit)(h, r)
	if len(h) != 0 {
		t.Errorf("headers %v", h)
	}
}

// Limiters that share a name or rules still get their own policies, and so do
// results whose rules are made anew each time.
func TestPoliciesAreNotMixedUp(t *testing.T) {
	limits := several().Limits
	for i := range 3000 {
		r := several()
		name, want := "a", `"a.1";q=10;w=1, "a.2";q=100;w=60`
		r.Name, r.Limits = name, limits[:2]
		if i%2 == 1 {
			r.Name, r.Limits, want = "b", slices.Clone(limits[1:2]), `"b";q=100;w=60`
		}
		h := http.Header{}
		middleware.RateLimitFields(h, r)
		if got := h.Get("RateLimit-Policy"); got != want {
			t.Fatalf("round %d: %s, want %s", i, got, want)
		}
	}
}

// A result that names its rule alone is reported by it.
func TestLimitWithoutLimits(t *testing.T) {
	r := several()
	r.Limits = nil
	h := http.Header{}
	middleware.RateLimitFields(h, r)
	if got := h.Get("RateLimit-Policy") + " " + h.Get("RateLimit"); got != `"api";q=100;w=60 "api";r=7;t=60` {
		t.Errorf("got %s", got)
	}
}

// A handler that appends to a header of one response reaches no other.
func TestHeadersAreNotShared(t *testing.T) {
	h := middleware.New(answer(admission("api", 3, time.Second), nil), middleware.Const("k"), &middleware.Options{
		Headers: middleware.Combine(middleware.RateLimitFields, middleware.XRateLimit),
	})(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		for name := range w.Header() {
			w.Header().Add(name, "more")
		}
	}))
	var first http.Header
	for i := range 100 {
		resp := serve(h, from("203.0.113.9:1"))
		for name, values := range resp.Header {
			if len(values) != 2 || values[1] != "more" {
				t.Fatalf("round %d: %s: %q", i, name, values)
			}
		}
		if first == nil {
			first = resp.Header.Clone()
		}
		for name := range first {
			if resp.Header[name][0] != first[name][0] {
				t.Fatalf("round %d: %s: %q", i, name, resp.Header[name])
			}
		}
	}
}

func TestExposed(t *testing.T) {
	own := func(h http.Header, r redislimiter.Result) { h.Set("X-Quota-Left", r.Limits[0].String()) }
	for _, test := range []struct {
		headers middleware.Headers
		want    string
	}{
		{nil, "Ratelimit Ratelimit-Policy Retry-After X-Ratelimit-Fallback"},
		{middleware.NoHeaders, "Retry-After X-Ratelimit-Fallback"},
		{middleware.ShadowHeader, "Retry-After X-Ratelimit-Fallback X-Ratelimit-Shadowed"},
		{middleware.Combine(middleware.RateLimitTriple, own), "Ratelimit-Limit Ratelimit-Remaining Ratelimit-Reset Retry-After X-Quota-Left X-Ratelimit-Fallback"},
	} {
		if got := strings.Join(middleware.Exposed(test.headers), " "); got != test.want {
			t.Errorf("%s, want %s", got, test.want)
		}
	}
	mustPanic(t, "is nil", func() { middleware.Combine(middleware.XRateLimit, nil) })
}
