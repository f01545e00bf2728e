package middleware_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	chimiddleware "github.com/go-chi/chi/v5/middleware"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// must shortens the examples. A program reports the error instead.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

// get sends a request from an address and prints what comes back.
func get(h http.Handler, peer string, headers ...string) {
	w := httptest.NewRecorder()
	h.ServeHTTP(w, from(peer+":4711", headers...))
	fmt.Println(w.Code, w.Header().Get("RateLimit"))
}

var hello = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "hello") })

// Two requests an hour for each client.
func Example() {
	limiter := must(redislimiter.NewMemory("api", redislimiter.SlidingWindowLog(2, time.Hour)))
	mux := http.NewServeMux()
	mux.Handle("GET /hello", hello)
	h := middleware.New(limiter, middleware.ByIP(nil), nil)(mux)

	for range 3 {
		r := httptest.NewRequest(http.MethodGet, "/hello", nil)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Println(w.Code, w.Header().Get("RateLimit"), w.Header().Get("RateLimit-Policy"))
	}
	// Output:
	// 200 "api";r=1;t=3600 "api";q=2;w=3600
	// 200 "api";r=0;t=3600 "api";q=2;w=3600
	// 429 "api";r=0;t=3600 "api";q=2;w=3600
}

// With chi, a limit for everything and a narrower one for a route. The CORS
// middleware comes before them, so that scripts can read that they were refused.
func Example_chi() {
	all := must(redislimiter.NewMemory("all", redislimiter.SlidingWindowLog(100, time.Hour)))
	search := must(redislimiter.NewMemory("search", redislimiter.SlidingWindowLog(1, time.Hour)))
	trusted := must(middleware.ParseProxies("10.0.0.0/8"))
	client := middleware.ByIP(trusted)

	r := chi.NewRouter()
	// r.Use(cors.Handler(cors.Options{ExposedHeaders: middleware.Exposed(nil)}))
	r.Use(middleware.New(all, client, nil))
	r.Get("/", hello)
	r.With(middleware.New(search, client, nil)).Get("/search", hello)

	for _, path := range []string{"/", "/search", "/search", "/"} {
		req := httptest.NewRequest(http.MethodGet, path, nil)
		w := httptest.NewRecorder()
		r.ServeHTTP(w, req)
		fmt.Println(path, w.Code, w.Header().Get("RateLimit"))
	}
	// Output:
	// / 200 "all";r=99;t=3600
	// /search 200 "search";r=0;t=3600
	// /search 429 "search";r=0;t=3600
	// / 200 "all";r=96;t=3600
}

// Another status than 429, with names and words of one's own.
func Example_enhanceYourCalm() {
	limiter := must(redislimiter.NewMemory("api", redislimiter.SlidingWindowLog(1, time.Hour)))
	h := middleware.New(limiter, middleware.ByIP(nil), &middleware.Options{
		Headers: func(h http.Header, r redislimiter.Result) {
			h.Set("X-Calls-Left", fmt.Sprint(r.Remaining))
		},
		Denied: func(w http.ResponseWriter, _ *http.Request, r redislimiter.Result) {
			http.Error(w, "Enhance your calm", 420) // Retry-After is set already
		},
	})(hello)
	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, w.Header().Get("X-Calls-Left"), w.Header().Get("Retry-After"), strings.TrimSpace(w.Body.String()))
	}
	// Output:
	// 200 0  hello
	// 420 0 3600 Enhance your calm
}

type planKey struct{}

// One limiter a plan. What authenticates the request puts the plan into its
// context, where the function that chooses finds it.
func Example_plans() {
	plans := map[string]redislimiter.Allower{
		"free": must(redislimiter.NewMemory("free", redislimiter.SlidingWindowLog(10, time.Hour))),
		"pro":  must(redislimiter.NewMemory("pro", redislimiter.SlidingWindowLog(1000, time.Hour))),
	}
	byPlan := redislimiter.AllowerFunc(func(ctx context.Context, key string, n int) (redislimiter.Result, error) {
		plan, ok := plans[fmt.Sprint(ctx.Value(planKey{}))]
		if !ok {
			plan = plans["free"]
		}
		return plan.AllowN(ctx, key, n)
	})
	authenticate := func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			plan := map[string]string{"key-of-alice": "pro"}[r.Header.Get("X-API-Key")] // from a database
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), planKey{}, plan)))
		})
	}
	h := authenticate(middleware.New(byPlan, middleware.Hash([]byte("secret"), middleware.ByHeader("X-API-Key")), nil)(hello))
	get(h, "203.0.113.9", "X-API-Key", "key-of-alice")
	get(h, "203.0.113.9", "X-API-Key", "key-of-bob")
	// Output:
	// 200 "pro";r=999;t=3600
	// 200 "free";r=9;t=3600
}

// An expensive route shares a limit with the others, at a higher price.
func ExampleOptions_cost() {
	limiter := must(redislimiter.NewMemory("api", redislimiter.SlidingWindowLog(100, time.Hour)))
	h := middleware.New(limiter, middleware.ByIP(nil), &middleware.Options{
		Cost: func(r *http.Request) int {
			if r.Header.Get("X-Full-Export") != "" {
				return 30
			}
			return 1
		},
	})(hello)
	get(h, "203.0.113.9")
	get(h, "203.0.113.9", "X-Full-Export", "1")
	// Output:
	// 200 "api";r=99;t=3600
	// 200 "api";r=69;t=3600
}

// Before a limit goes live: nobody is refused, and access logs show who would be.
func Example_shadow() {
	limiter := must(redislimiter.NewMemory("api", redislimiter.SlidingWindowLog(1, time.Hour)))
	h := middleware.New(redislimiter.Shadow(limiter), middleware.ByIP(nil), &middleware.Options{
		Headers: middleware.ShadowHeader, // and no others, since the limit does not hold yet
	})(hello)
	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Printf("%d %q\n", w.Code, w.Header().Get("X-RateLimit-Shadowed"))
	}
	// Output:
	// 200 ""
	// 200 "true"
}

// The user if there is one, else the API key, else the address.
func ExampleFirst() {
	trusted := must(middleware.ParseProxies("10.0.0.0/8", "fd00::/8"))
	key := middleware.First(
		middleware.ByUser(userKey{}),
		middleware.ByHeader("X-API-Key"),
		middleware.ByIP(trusted),
	)
	fmt.Println(key(with("alice")))
	fmt.Println(key(from("10.0.0.2:1", "X-API-Key", "k-123")))
	fmt.Println(key(from("10.0.0.2:1", "X-Forwarded-For", "6.6.6.6, 198.51.100.7")))
	// Output:
	// 0|alice <nil>
	// 1|k-123 <nil>
	// 2|198.51.100.7 <nil>
}

// A limit for each client on each route.
func ExampleJoin() {
	key := middleware.Join(middleware.ByIP(nil), middleware.ByRoute)
	mux := http.NewServeMux()
	mux.HandleFunc("GET /users/{id}", func(_ http.ResponseWriter, r *http.Request) { fmt.Println(key(r)) })
	r := httptest.NewRequest(http.MethodGet, "/users/42", nil)
	mux.ServeHTTP(httptest.NewRecorder(), r)
	// Output: 192.0.2.1|GET /users/{id} <nil>
}

// Both sets of names while clients move from the old to the new ones.
func ExampleCombine() {
	limiter := must(redislimiter.NewMemory("api", redislimiter.SlidingWindowLog(5, time.Hour)))
	headers := middleware.Combine(middleware.RateLimitFields, middleware.XRateLimit)
	h := middleware.New(limiter, middleware.ByIP(nil), &middleware.Options{Headers: headers})(hello)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Header().Get("RateLimit"), w.Header().Get("X-RateLimit-Remaining"))
	fmt.Println("Access-Control-Expose-Headers:", strings.Join(middleware.Exposed(headers), ", "))
	// Output:
	// "api";r=4;t=3600 4
	// Access-Control-Expose-Headers: Ratelimit, Ratelimit-Policy, Retry-After, X-Ratelimit-Fallback, X-Ratelimit-Limit, X-Ratelimit-Remaining, X-Ratelimit-Reset
}

// Where chi already finds the client's address, take it from there.
func ExampleByNetwork() {
	byChi := middleware.ByNetwork(func(r *http.Request) (netip.Addr, error) {
		return chimiddleware.GetClientIPAddr(r.Context()), nil
	}, 32, 64)
	limiter := must(redislimiter.NewMemory("api", redislimiter.SlidingWindowLog(5, time.Hour)))

	r := chi.NewRouter()
	r.Use(chimiddleware.ClientIPFromXFF("10.0.0.0/8"))
	r.Use(middleware.New(limiter, byChi, nil))
	r.Get("/", hello)
	get(r, "10.0.0.2", "X-Forwarded-For", "198.51.100.7")
	get(r, "10.0.0.2", "X-Forwarded-For", "198.51.100.7")
	get(r, "10.0.0.2", "X-Forwarded-For", "198.51.100.8")
	// Output:
	// 200 "api";r=4;t=3600
	// 200 "api";r=3;t=3600
	// 200 "api";r=4;t=3600
}

// A client of an API that allows one request a second to each of its hosts.
func ExampleTransport() {
	limiter := must(redislimiter.NewMemory("outgoing", redislimiter.TokenBucket(1, time.Second, 1)))
	client := &http.Client{Transport: &middleware.Transport{
		Limiter: limiter,
		MaxWait: 10 * time.Second,
		Retries: 2,
	}}
	server := httptest.NewServer(hello)
	defer server.Close()
	resp := must(client.Get(server.URL))
	defer resp.Body.Close()
	fmt.Println(resp.StatusCode)
	// Output: 200
}

// The first classic mistake: to take the client's address from a header that the
// client writes. Whoever sends another value each time is never limited.
// Use [ByIP] with the addresses of your proxies.
func ExampleByHeader_incorrect() {
	limiter := must(redislimiter.NewMemory("api", redislimiter.SlidingWindowLog(1, time.Hour)))
	wrong := middleware.New(limiter, middleware.ByHeader("X-Forwarded-For"), nil)(hello)
	get(wrong, "203.0.113.9", "X-Forwarded-For", "6.6.6.1")
	get(wrong, "203.0.113.9", "X-Forwarded-For", "6.6.6.2") // the same client

	right := middleware.New(limiter, middleware.ByIP(must(middleware.ParseProxies("10.0.0.0/8"))), nil)(hello)
	get(right, "203.0.113.9", "X-Forwarded-For", "6.6.6.1")
	get(right, "203.0.113.9", "X-Forwarded-For", "6.6.6.2")
	// Output:
	// 200 "api";r=0;t=3600
	// 200 "api";r=0;t=3600
	// 200 "api";r=0;t=3600
	// 429 "api";r=0;t=3600
}

// The second classic mistake: to take no notice of the proxy in front. All
// connections come from it, so that all clients share one limit, and one of
// them uses it up for the others. Trust the proxy, and no more than it.
func ExampleByIP_incorrect() {
	limiter := must(redislimiter.NewMemory("api", redislimiter.SlidingWindowLog(1, time.Hour)))
	wrong := middleware.New(limiter, middleware.ByIP(nil), nil)(hello)
	get(wrong, "10.0.0.2", "X-Forwarded-For", "198.51.100.7")
	get(wrong, "10.0.0.2", "X-Forwarded-For", "198.51.100.8") // another client

	right := middleware.New(limiter, middleware.ByIP(must(middleware.ParseProxies("10.0.0.2"))), nil)(hello)
	get(right, "10.0.0.2", "X-Forwarded-For", "198.51.100.7")
	get(right, "10.0.0.2", "X-Forwarded-For", "198.51.100.8")
	// Output:
	// 200 "api";r=0;t=3600
	// 429 "api";r=0;t=3600
	// 200 "api";r=0;t=3600
	// 200 "api";r=0;t=3600
}
