package redislimiter_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

var ctx = context.Background()

// A service that several instances run: each client address gets 10 requests a
// second in bursts of up to 20, from all instances together.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	limiter, err := redislimiter.New(rdb, "api", redislimiter.TokenBucket(10, time.Second, 20))
	if err != nil {
		panic(err)
	}
	guarded := &redislimiter.Fallback{Primary: limiter, Secondary: redislimiter.Open}
	limit := middleware.New(guarded, middleware.ByIP(nil), nil)

	mux := http.NewServeMux()
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "hello")
	})
	http.ListenAndServe(":8080", limit(mux))
}

// When Redis is away, each of three instances enforces its share by itself.
// Operators hear of it, and of what only they can mend.
func ExampleFallback() {
	limit := redislimiter.TokenBucket(30, time.Second, 60)
	limiter, err := redislimiter.New(redis.NewClient(&redis.Options{Addr: "localhost:6379"}), "api", limit)
	if err != nil {
		panic(err)
	}
	local, err := redislimiter.NewMemory("api", limit.Share(3))
	if err != nil {
		panic(err)
	}
	guarded := &redislimiter.Fallback{
		Primary:   limiter,
		Secondary: local,
		Timeout:   50 * time.Millisecond,
		OnError: func(err error) {
			if errors.Is(err, redislimiter.ErrMisconfigured) {
				slog.Error("the rate limiter's Redis has to be configured", "error", err)
			}
		},
	}
	result, err := guarded.Allow(ctx, "customer-7")
	fmt.Println(result.Allowed, result.Source, err)
}

// Decisions without middleware.
func ExampleLimiter_AllowN() {
	limiter := memory(redislimiter.TokenBucket(1, time.Minute, 5)) // or redislimiter.New
	result, err := limiter.AllowN(ctx, "customer-7", 3)
	fmt.Println(result.Allowed, result.Remaining, err)
	result, err = limiter.AllowN(ctx, "customer-7", 3)
	fmt.Println(result.Allowed, result.RetryAfter.Round(time.Second), err)
	_, err = limiter.AllowN(ctx, "customer-7", 6)
	fmt.Println(errors.Is(err, redislimiter.ErrNeverAllowed))
	// Output:
	// true 2 <nil>
	// false 1m0s <nil>
	// true
}

// A limit that holds at every scale: no more than 2 at once, 100 an hour, and a
// quarter of an hour's pause for those who do not take no for an answer.
func ExampleNew_severalLimits() {
	limiter, err := redislimiter.New(redis.NewClient(&redis.Options{Addr: "localhost:6379"}), "login",
		redislimiter.TokenBucket(1, time.Second, 2),
		redislimiter.FixedWindow(100, time.Hour),
		redislimiter.BlockAfter(10, time.Minute, 15*time.Minute))
	if err != nil {
		panic(err)
	}
	fmt.Println(limiter.Limits())
	// Output: [token bucket of 2, 1 per 1s fixed window, 100 per 1h0m0s block for 15m0s after 10 refusals within 1m0s]
}

// Plans: one limiter each, picked for each request.
func ExampleAllowerFunc() {
	free, paid := memory(redislimiter.TokenBucket(1, time.Second, 2)), memory(redislimiter.TokenBucket(100, time.Second, 200))
	isPaid := func(customer string) bool { return customer == "acme" }
	byPlan := redislimiter.AllowerFunc(func(ctx context.Context, customer string, n int) (redislimiter.Result, error) {
		if isPaid(customer) {
			return paid.AllowN(ctx, customer, n)
		}
		return free.AllowN(ctx, customer, n)
	})
	for _, customer := range []string{"acme", "somebody"} {
		result, err := byPlan.AllowN(ctx, customer, 1)
		fmt.Println(customer, result.Remaining, err)
	}
	// Output:
	// acme 199 <nil>
	// somebody 1 <nil>
}

// A login is charged to its address and to its account, or to neither.
func ExampleAllowAll() {
	addresses, accounts := memory(redislimiter.TokenBucket(10, time.Minute, 20)), memory(redislimiter.TokenBucket(1, time.Minute, 5))
	result, err := redislimiter.AllowAll(ctx,
		redislimiter.Charge{Limiter: accounts, Key: "ann", N: 1},
		redislimiter.Charge{Limiter: addresses, Key: "203.0.113.9", N: 1})
	fmt.Println(result.Allowed, result.Remaining, err)
	// Output: true 4 <nil>
}

// A model's answer costs as many units as it has tokens, which are known only
// afterwards: reserve an estimate and give back the rest.
func ExampleResult_Refund() {
	limiter := memory(redislimiter.TokenBucket(1000, time.Minute, 10_000))
	result, err := limiter.AllowN(ctx, "customer-7", 4000)
	if err != nil || !result.Allowed {
		return
	}
	used := 1500 // as it turned out
	err = result.Refund(ctx, 4000-used)
	left, _ := limiter.AllowN(ctx, "customer-7", 0)
	fmt.Println(left.Remaining, err)
	// Output: 8500 <nil>
}

// Outgoing calls to an API that allows five a second are sent at its pace.
func ExampleWait() {
	api := memory(redislimiter.LeakyBucket(5, time.Second, 10))
	start := time.Now()
	for range 3 {
		if err := redislimiter.Wait(ctx, api, "api.example.com", 1); err != nil {
			fmt.Println(err)
			return
		}
		// call the API
	}
	fmt.Println(time.Since(start) >= 399*time.Millisecond)
	// Output: true
}

// Clients who keep knocking cost no trips: a refusal is remembered until it can
// have changed.
func ExampleCacheDenials() {
	limiter := redislimiter.CacheDenials(memory(redislimiter.TokenBucket(1, time.Minute, 1)), 10_000)
	for range 3 {
		result, err := limiter.AllowN(ctx, "customer-7", 1)
		fmt.Println(result.Allowed, result.Source, err)
	}
	// Output:
	// true memory <nil>
	// false memory <nil>
	// false deny-cache <nil>
}

// A key that sees a hundred thousand requests a second on each instance: units
// are taken ahead in batches of up to 500.
func ExampleLease() {
	limiter, err := redislimiter.New(redis.NewClient(&redis.Options{Addr: "localhost:6379"}), "tenant",
		redislimiter.TokenBucket(500_000, time.Second, 500_000))
	if err != nil {
		panic(err)
	}
	leased := redislimiter.Lease(limiter, 500)
	result, err := leased.AllowN(ctx, "big-tenant", 1)
	fmt.Println(result.Allowed, result.Source, err)
}

// Before going live: count what would be refused, and refuse nothing.
func ExampleShadow() {
	limiter := redislimiter.Shadow(memory(redislimiter.TokenBucket(1, time.Minute, 1)))
	for range 2 {
		result, err := limiter.AllowN(ctx, "customer-7", 1)
		fmt.Println(result.Allowed, result.Shadowed, err)
	}
	// Output:
	// true false <nil>
	// true true <nil>
}

func memory(limits ...redislimiter.Limit) *redislimiter.Memory {
	m, err := redislimiter.NewMemory("example", limits...)
	if err != nil {
		panic(err)
	}
	return m
}

// A client for limits, on which nothing hangs for long. Check tells at start-up
// what is missing.
func ExampleLimiter_Check() {
	rdb := redis.NewClient(&redis.Options{ // the same fields in ClusterOptions, FailoverOptions and RingOptions
		Addr:          "localhost:6379",
		DialTimeout:   500 * time.Millisecond, // a host that drops packets holds up a connection for so long
		ReadTimeout:   500 * time.Millisecond, // a reply that comes after the limiter's Timeout helps nobody
		WriteTimeout:  500 * time.Millisecond,
		DialerRetries: 1, // the limiter tries again by itself

		ContextTimeoutEnabled: true, // go-redis comes back at deadlines by itself
	})
	limiter, err := redislimiter.New(rdb, "api", redislimiter.TokenBucket(10, time.Second, 20))
	if err != nil {
		panic(err)
	}
	if err := limiter.Check(ctx); err != nil {
		slog.Error("limits cannot be enforced by Redis", "error", err)
	}
}
