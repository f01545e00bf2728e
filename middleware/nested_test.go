package middleware_test

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// Two limiters around one handler: each header once, and the most restrictive
// limiter is the one that is reported.
func TestNestedLimiters(t *testing.T) {
	admits := func(name string, left int, reset time.Duration) redislimiter.Allower {
		return answer(admission(name, left, reset), nil)
	}
	refuses := answer(refusal("in", 9*time.Second), nil)
	tests := []struct {
		name       string
		outer, inn redislimiter.Allower
		status     int
		want       string // of RateLimit
	}{
		{"the inner one has less left", admits("out", 5, time.Second), admits("in", 3, time.Second), 200, `"in";r=3;t=1`},
		{"the outer one has less left", admits("out", 3, time.Second), admits("in", 5, time.Second), 200, `"out";r=3;t=1`},
		{"as much left: the longer wait", admits("out", 3, time.Second), admits("in", 3, 2*time.Second), 200, `"in";r=3;t=2`},
		{"alike: the first", admits("out", 3, time.Second), admits("in", 3, time.Second), 200, `"out";r=3;t=1`},
		{"the inner one refuses", admits("out", 5, time.Second), refuses, 429, `"in";r=0;t=9`},
		{"the inner one refuses, the outer one is empty", admits("out", 0, time.Hour), refuses, 429, `"in";r=0;t=9`},
		{"the outer one fails open", redislimiter.Open, admits("in", 3, time.Second), 200, `"in";r=3;t=1`},
		{"the inner one fails open", admits("out", 3, time.Second), redislimiter.Open, 200, `"out";r=3;t=1`},
		{"the inner one fails closed", admits("out", 3, time.Second), redislimiter.Closed, 503, `"out";r=3;t=1`},
	}
	triple := &middleware.Options{Headers: middleware.Combine(middleware.RateLimitFields, middleware.XRateLimit)}
	for _, test := range tests {
		for kind, opts := range map[string]*middleware.Options{"default": nil, "two kinds": triple} {
			t.Run(test.name+", "+kind, func(t *testing.T) {
				inner := middleware.New(test.inn, middleware.Const("k"), opts)(new(reached))
				resp := serve(middleware.New(test.outer, middleware.Const("k"), opts)(inner), from("203.0.113.9:1"))
				if got := resp.Header.Get("RateLimit"); resp.StatusCode != test.status || got != test.want {
					t.Errorf("status %d and %s, want %d and %s", resp.StatusCode, got, test.status, test.want)
				}
				for name, values := range resp.Header {
					if len(values) > 1 {
						t.Errorf("%s is there %d times", name, len(values))
					}
				}
				policy, _, _ := strings.Cut(resp.Header.Get("RateLimit-Policy"), ";")
				if !strings.HasPrefix(test.want, policy) {
					t.Errorf("policy %s", policy)
				}
			})
		}
	}
}

func closure(l redislimiter.Allower) redislimiter.Allower {
	return redislimiter.AllowerFunc(func(ctx context.Context, key string, n int) (redislimiter.Result, error) {
		return l.AllowN(ctx, key, n)
	})
}

// A limiter that is mounted twice on the way of a request charges it once, and
// the more expensive mount is what it costs.
func TestMountedTwice(t *testing.T) {
	costs := func(n int) *middleware.Options {
		return &middleware.Options{Cost: func(*http.Request) int { return n }}
	}
	byIP, other := middleware.ByIP(nil), middleware.Const("other")
	l := memory(t, "api", 100)
	function := redislimiter.AllowerFunc(l.AllowN)
	once := middleware.New(function, byIP, nil)
	tests := []struct {
		name   string
		mounts []func(http.Handler) http.Handler
		want   int // units charged to the client's key
	}{
		{"once", []func(http.Handler) http.Handler{middleware.New(l, byIP, nil)}, 1},
		{"twice", []func(http.Handler) http.Handler{middleware.New(l, byIP, nil), middleware.New(l, byIP, nil)}, 1},
		{"three times, another between", []func(http.Handler) http.Handler{
			middleware.New(l, byIP, nil), middleware.New(memory(t, "x", 9), byIP, nil), middleware.New(l, byIP, nil), middleware.New(l, byIP, nil)}, 1},
		{"dearer inside", []func(http.Handler) http.Handler{middleware.New(l, byIP, nil), middleware.New(l, byIP, costs(5))}, 5},
		{"dearer outside", []func(http.Handler) http.Handler{middleware.New(l, byIP, costs(5)), middleware.New(l, byIP, costs(2))}, 5},
		{"dearer and dearer", []func(http.Handler) http.Handler{middleware.New(l, byIP, nil), middleware.New(l, byIP, costs(2)), middleware.New(l, byIP, costs(7))}, 7},
		{"for another key", []func(http.Handler) http.Handler{middleware.New(l, other, nil), middleware.New(l, byIP, nil)}, 1},
		{"without headers", []func(http.Handler) http.Handler{
			middleware.New(l, byIP, &middleware.Options{Headers: middleware.NoHeaders}), middleware.New(l, byIP, nil)}, 1},
		{"a function in one middleware", []func(http.Handler) http.Handler{once, once}, 1},
		{"a function in two", []func(http.Handler) http.Handler{once, middleware.New(function, byIP, nil)}, 1},
		{"closures of one function", []func(http.Handler) http.Handler{
			middleware.New(closure(memory(t, "x", 9)), byIP, nil), middleware.New(closure(l), byIP, nil), middleware.New(closure(memory(t, "y", 9)), byIP, nil)}, 1},
	}
	for i, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			peer := fmt.Sprint("203.0.113.", i+1)
			var next reached
			h := http.Handler(&next)
			for j := len(test.mounts) - 1; j >= 0; j-- {
				h = test.mounts[j](h)
			}
			resp := serve(h, from(peer+":1"))
			look, err := l.AllowN(context.Background(), peer, 0)
			if err != nil || resp.StatusCode != 200 || next != 1 {
				t.Fatalf("status %d, %v", resp.StatusCode, err)
			}
			if charged := 100 - look.Remaining; charged != test.want {
				t.Errorf("charged %d, want %d", charged, test.want)
			}
		})
	}
}

// A request that an inner mount of the same limiter refuses has cost nothing, whatever the outer ones charge, and however
// they do.
func TestRefusedByAnInnerMount(t *testing.T) {
	failures := func(status int) bool { return status >= 400 }
	for name, only := range map[string]func(int) bool{"everything counts": nil, "only failures count": failures} {
		for _, headers := range []middleware.Headers{nil, middleware.NoHeaders} {
			l := memory(t, "api", 9)
			mount := func(cost int, h http.Handler) http.Handler {
				return middleware.New(l, middleware.ByIP(nil), &middleware.Options{
					Headers: headers, OnlyFailures: only, Cost: func(*http.Request) int { return cost },
				})(h)
			}
			var next reached
			for cost, want := range map[int]int{9: 200, 10: 429} {
				resp := serve(mount(1, mount(2, mount(cost, &next))), from("203.0.113.9:1"))
				look, err := l.AllowN(t.Context(), "203.0.113.9", 0)
				charged := 0
				if want == 200 && only == nil {
					charged = cost
				}
				if err != nil || resp.StatusCode != want || 9-look.Remaining != charged {
					t.Errorf("%s, cost %d: status %d, %d left, %v", name, cost, resp.StatusCode, look.Remaining, err)
				}
				if err := l.Reset(t.Context(), "203.0.113.9"); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

// The next request of the same client is charged again, also where a test or a
// proxy uses a header map again, and whatever became of the one before.
func TestNotesEndWithTheRequest(t *testing.T) {
	for name, headers := range map[string]middleware.Headers{
		"default": nil, "none": middleware.NoHeaders, "two": middleware.Combine(middleware.RateLimitFields, middleware.XRateLimit),
	} {
		t.Run(name, func(t *testing.T) {
			l := memory(t, "api", 7)
			mount := middleware.New(l, middleware.ByIP(nil), &middleware.Options{Headers: headers})
			w := &discard{h: http.Header{}}
			h := mount(mount(bare))
			panics := mount(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { panic("handler") }))
			for range 3 {
				h.ServeHTTP(w, from("203.0.113.9:1"))
				func() {
					defer func() { recover() }()
					panics.ServeHTTP(w, from("203.0.113.9:1"))
				}()
			}
			if look, _ := l.AllowN(context.Background(), "203.0.113.9", 0); look.Remaining != 1 {
				t.Errorf("%d left, want 1", look.Remaining)
			}
			var next reached
			for range 3 {
				mount(&next).ServeHTTP(w, from("203.0.113.9:1"))
			}
			if next != 1 {
				t.Errorf("%d admitted, want 1", next)
			}
			for name := range w.h {
				if strings.Contains(name, ":") {
					t.Errorf("%q is left in the header", name)
				}
			}
		})
	}
}

// What a recorder, a cache or a log sees of the header map is what is sent.
func TestNotesAreNotSeen(t *testing.T) {
	mount := middleware.New(memory(t, "api", 9), middleware.ByIP(nil), nil)
	inner := middleware.New(memory(t, "inner", 99), middleware.ByIP(nil), nil)
	h := mount(inner(mount(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header()["Content-Type"] = plain
		w.WriteHeader(200)
	}))))
	want := http.Header{"Content-Type": plain, "Ratelimit": {`"api";r=8;t=3600`}, "Ratelimit-Policy": {`"api";q=9;w=3600`}}
	if got := serve(h, from("203.0.113.9:1")).Header; !reflect.DeepEqual(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
}

// Keys are not readable in the header map, whoever may look into it.
func TestNotesHideKeys(t *testing.T) {
	h := middleware.New(memory(t, "api", 9), middleware.ByHeader("X-API-Key"), nil)(http.HandlerFunc(
		func(w http.ResponseWriter, _ *http.Request) {
			for name, values := range w.Header() {
				if all := name + strings.Join(values[:cap(values)], ""); strings.Contains(all, "s3cret") {
					t.Errorf("%q", all)
				}
			}
		}))
	serve(h, from("203.0.113.9:1", "X-API-Key", "s3cret"))
}

// A handler that replaces the field, or adds to it, does no harm to a limiter
// inside.
func TestNotesOverwritten(t *testing.T) {
	for name, meddle := range map[string]func(http.Header){
		"set":    func(h http.Header) { h.Set("RateLimit", "mine") },
		"add":    func(h http.Header) { h.Add("RateLimit", "mine") },
		"delete": func(h http.Header) { h.Del("RateLimit") },
		"spare":  func(h http.Header) { h["Ratelimit"] = append(make([]string, 0, 4), "mine") },
	} {
		t.Run(name, func(t *testing.T) {
			mount := middleware.New(memory(t, "api", 9), middleware.ByIP(nil), nil)
			h := mount(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				meddle(w.Header())
				mount(new(reached)).ServeHTTP(w, r)
			}))
			if resp := serve(h, from("203.0.113.9:1")); resp.StatusCode != 200 || resp.Header.Get("RateLimit") == "" {
				t.Errorf("%d %q", resp.StatusCode, resp.Header)
			}
		})
	}
}

// The limit of what is promised: http.TimeoutHandler has a header map of its own,
// so that a limiter inside it does not know of those outside.
func TestTimeoutHandlerHidesNotes(t *testing.T) {
	l := memory(t, "api", 9)
	mount := middleware.New(l, middleware.ByIP(nil), nil)
	resp := serve(mount(http.TimeoutHandler(mount(new(reached)), time.Minute, "")), from("203.0.113.9:1"))
	if resp.StatusCode != 200 || resp.Header.Get("RateLimit") != `"api";r=7;t=3600` {
		t.Errorf("%d %q", resp.StatusCode, resp.Header)
	}
}
