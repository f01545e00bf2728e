// Package migrating_test has the code of docs/migrating.md: what users of other limiters
// have, and what takes its place here. Each Example sends the same requests through both.
package migrating_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/go-chi/httprate"
	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/ulule/limiter/v3"
	ulule "github.com/ulule/limiter/v3/drivers/middleware/stdlib"
	ululeredis "github.com/ulule/limiter/v3/drivers/store/redis"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

var ctx = context.Background()

// redisFor is a Redis for an example, and how to end it.
func redisFor() (*redis.Client, func()) {
	server, err := miniredis.Run()
	if err != nil {
		panic(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: server.Addr()})
	return rdb, func() { rdb.Close(); server.Close() }
}

func redisRate(rdb *redis.Client) func(customer string) error {
	limiter := redis_rate.NewLimiter(rdb)
	return func(customer string) error {
		result, err := limiter.Allow(ctx, customer, redis_rate.PerHour(3))
		if err != nil {
			return err
		}
		if result.Allowed == 0 {
			return fmt.Errorf("try again in %v", result.RetryAfter.Round(time.Minute))
		}
		return nil
	}
}

func insteadOfRedisRate(rdb *redis.Client) func(customer string) error {
	limiter, err := redislimiter.New(rdb, "api", redislimiter.GCRA(3, time.Hour, 3))
	if err != nil {
		panic(err)
	}
	return func(customer string) error {
		result, err := limiter.Allow(ctx, customer)
		if err != nil {
			return err
		}
		if !result.Allowed {
			return fmt.Errorf("try again in %v", result.RetryAfter.Round(time.Minute))
		}
		return nil
	}
}

func Example_redisRate() {
	rdb, end := redisFor()
	defer end()
	before, after := redisRate(rdb), insteadOfRedisRate(rdb)
	for range 4 {
		fmt.Println(before("customer-7"), "|", after("customer-7"))
	}
	// Output:
	// <nil> | <nil>
	// <nil> | <nil>
	// <nil> | <nil>
	// try again in 20m0s | try again in 20m0s
}

func withHTTPRate(api http.Handler) http.Handler {
	byAddress := func(r *http.Request) (string, error) {
		host, _, err := net.SplitHostPort(r.RemoteAddr)
		return httprate.CanonicalizeIP(host), err
	}
	return httprate.LimitBy(3, time.Hour, byAddress)(api)
}

func insteadOfHTTPRate(rdb *redis.Client, api http.Handler) http.Handler {
	limiter, err := redislimiter.New(rdb, "api", redislimiter.SlidingWindowCounter(3, time.Hour))
	if err != nil {
		panic(err)
	}
	guarded := &redislimiter.Fallback{Primary: limiter, Secondary: redislimiter.Open}
	return middleware.New(guarded, middleware.ByIP(nil), &middleware.Options{
		Headers: middleware.XRateLimitEpoch, // what httprate sends; nil is the IETF's draft
	})(api)
}

func withUlule(rdb *redis.Client, api http.Handler) http.Handler {
	store, err := ululeredis.NewStore(rdb)
	if err != nil {
		panic(err)
	}
	rate, err := limiter.NewRateFromFormatted("3-H")
	if err != nil {
		panic(err)
	}
	return ulule.NewMiddleware(limiter.New(store, rate)).Handler(api)
}

func insteadOfUlule(rdb *redis.Client, api http.Handler) http.Handler {
	limiter, err := redislimiter.New(rdb, "api", redislimiter.FixedWindow(3, time.Hour))
	if err != nil {
		panic(err)
	}
	guarded := &redislimiter.Fallback{Primary: limiter, Secondary: redislimiter.Closed}
	return middleware.New(guarded, middleware.ByIP(nil), &middleware.Options{
		Headers: middleware.XRateLimitEpoch,
	})(api)
}

// sideBySide sends requests of two clients to both, and prints what they answer.
func sideBySide(before, after http.Handler) {
	for _, peer := range []string{"203.0.113.9:1", "203.0.113.9:2", "203.0.113.9:3", "203.0.113.9:4", "203.0.113.10:1"} {
		for i, h := range []http.Handler{before, after} {
			r := httptest.NewRequest(http.MethodGet, "/", nil)
			r.RemoteAddr = peer
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			fmt.Print([]string{"", " | "}[i], w.Code, " ", w.Header().Get("X-RateLimit-Limit"), " ", w.Header().Get("X-RateLimit-Remaining"))
		}
		fmt.Println()
	}
}

var api = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "hello") })

func Example_httprate() {
	rdb, end := redisFor()
	defer end()
	sideBySide(withHTTPRate(api), insteadOfHTTPRate(rdb, api))
	// Output:
	// 200 3 2 | 200 3 2
	// 200 3 1 | 200 3 1
	// 200 3 0 | 200 3 0
	// 429 3 0 | 429 3 0
	// 200 3 2 | 200 3 2
}

func Example_ulule() {
	rdb, end := redisFor()
	defer end()
	sideBySide(withUlule(rdb, api), insteadOfUlule(rdb, api))
	// Output:
	// 200 3 2 | 200 3 2
	// 200 3 1 | 200 3 1
	// 200 3 0 | 200 3 0
	// 429 3 0 | 429 3 0
	// 200 3 2 | 200 3 2
}
