package otelredislimiter_test

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
	"go.opentelemetry.io/otel"

	"github.com/redislimiter/go-redislimiter/otelredislimiter"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// Decisions and the state of the breaker as metrics of the global provider.
func Example() {
	rdb := redis.NewClient(&redis.Options{Addr: "localhost:6379"})
	limiter, err := redislimiter.New(rdb, "api", redislimiter.TokenBucket(10, time.Second, 20))
	if err != nil {
		panic(err)
	}
	metrics, err := otelredislimiter.New(otel.GetMeterProvider())
	if err != nil {
		panic(err)
	}
	guarded := &redislimiter.Fallback{
		Primary:   limiter,
		Secondary: redislimiter.Open,
		OnError:   metrics.Failures("api"),
	}
	if _, err := metrics.Watch("api", guarded); err != nil {
		panic(err)
	}
	observed := redislimiter.Observe(guarded, metrics.Observe)
	result, err := observed.AllowN(context.Background(), "customer-7", 1)
	fmt.Println(result.Allowed, err)
}

// One limiter's decisions as spans.
func ExampleSpans() {
	limiter, err := redislimiter.NewMemory("reports", redislimiter.TokenBucket(1, time.Second, 5))
	if err != nil {
		panic(err)
	}
	traced := otelredislimiter.Spans(limiter, otel.GetTracerProvider())
	result, err := traced.AllowN(context.Background(), "customer-7", 1)
	fmt.Println(result.Allowed, err)
	// Output: true <nil>
}
