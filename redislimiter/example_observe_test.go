package redislimiter_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// Every decision, with its error and the time it took.
func ExampleObserve() {
	var refused atomic.Int64
	limiter := redislimiter.Observe(memory(redislimiter.TokenBucket(1, time.Minute, 1)), func(ctx context.Context, e redislimiter.Event) {
		if e.Err == nil && !e.Result.Allowed {
			refused.Add(1)
		}
	})
	for range 3 {
		if _, err := limiter.AllowN(ctx, "customer-7", 1); err != nil {
			panic(err)
		}
	}
	fmt.Println(refused.Load(), "refused")
	// Output: 2 refused
}

// A limiter without a Fallback answers an outage with errors, which are logged at a
// bounded rate.
func ExampleLogOutages() {
	failing := redislimiter.AllowerFunc(func(context.Context, string, int) (redislimiter.Result, error) {
		return redislimiter.Result{Name: "api"}, redislimiter.ErrUnavailable
	})
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{ReplaceAttr: withoutTime}))
	limiter := redislimiter.Observe(failing, redislimiter.LogOutages(logger))
	for range 1000 {
		_, _ = limiter.AllowN(ctx, "customer-7", 1)
	}
	// Output: level=WARN msg="redislimiter: the limiter gives no decisions" limiter=api source=none decisions=1 for=0s error="no decision"
}

func withoutTime(_ []string, a slog.Attr) slog.Attr {
	if a.Key == slog.TimeKey {
		return slog.Attr{}
	}
	return a
}

// Who is refused most, served to operators.
func ExampleTopRefused() {
	top, err := redislimiter.NewTopRefused(100, []byte("secret of all instances"))
	if err != nil {
		panic(err)
	}
	limiter := redislimiter.Observe(memory(redislimiter.TokenBucket(1, time.Minute, 1)), top.Observe)
	operators := http.NewServeMux() // on a port that clients do not reach
	operators.Handle("GET /refused", top)

	for range 5 {
		_, _ = limiter.AllowN(ctx, "customer-7", 1)
	}
	_ = json.NewEncoder(os.Stdout).Encode(top.Top())
	// Output: [{"name":"example","key":"b7d2882a39c2155e","count":4,"error":0}]
}

// All that is worth watching: decisions, outages, and who is refused. The metrics
// are those of otelredislimiter.
func ExampleObserve_everything() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	limiter, err := redislimiter.New(rdb, "api", redislimiter.TokenBucket(10, time.Second, 20))
	if err != nil {
		panic(err)
	}
	guarded := &redislimiter.Fallback{
		Primary:   limiter,
		Secondary: redislimiter.Open,
		Logger:    slog.Default().With("component", "rate limit"),
	}
	top, err := redislimiter.NewTopRefused(100, []byte(os.Getenv("KEY_SECRET")))
	if err != nil {
		panic(err)
	}
	observed := redislimiter.Observe(guarded, top.Observe)
	result, err := observed.AllowN(ctx, "customer-7", 1)
	fmt.Println(result.Allowed, result.Source, err)
}
