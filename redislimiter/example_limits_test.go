package redislimiter_test

import (
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// knock sends requests of one unit at once and prints what happens to each.
func knock(limiter *redislimiter.Memory, requests int) {
	for range requests {
		result, err := limiter.Allow(ctx, "customer-7")
		switch {
		case err != nil:
			fmt.Println(err)
		case !result.Allowed:
			fmt.Println("refused, try again in", result.RetryAfter.Round(time.Second))
		case result.Delay > 0:
			fmt.Println("admitted, after", result.Delay.Round(time.Second))
		default:
			fmt.Println("admitted,", result.Remaining, "left")
		}
	}
}

// A quota sold as such: 2 a day, from the first request on.
func ExampleFixedWindow() {
	knock(memory(redislimiter.FixedWindow(2, 24*time.Hour)), 3)
	// Output:
	// admitted, 1 left
	// admitted, 0 left
	// refused, try again in 24h0m0s
}

// Never more than 2 within any hour.
func ExampleSlidingWindowLog() {
	knock(memory(redislimiter.SlidingWindowLog(2, time.Hour)), 3)
	// Output:
	// admitted, 1 left
	// admitted, 0 left
	// refused, try again in 1h0m0s
}

// A million an hour for each tenant, in a hundred bytes.
func ExampleSlidingWindowCounter() {
	knock(memory(redislimiter.SlidingWindowCounter(1_000_000, time.Hour)), 2)
	// Output:
	// admitted, 999999 left
	// admitted, 999998 left
}

// One a minute on average, and two at once after a pause.
func ExampleTokenBucket() {
	knock(memory(redislimiter.TokenBucket(1, time.Minute, 2)), 3)
	// Output:
	// admitted, 1 left
	// admitted, 0 left
	// refused, try again in 1m0s
}

// The same decisions, stored as one string.
func ExampleGCRA() {
	knock(memory(redislimiter.GCRA(1, time.Minute, 2)), 3)
	// Output:
	// admitted, 1 left
	// admitted, 0 left
	// refused, try again in 1m0s
}

// One a minute, and two more may wait for their turn.
func ExampleLeakyBucket() {
	knock(memory(redislimiter.LeakyBucket(1, time.Minute, 3)), 4)
	// Output:
	// admitted, 2 left
	// admitted, after 1m0s
	// admitted, after 2m0s
	// refused, try again in 1m0s
}

// Who does not take two refusals for an answer is blocked for a quarter of an hour.
func ExampleBlockAfter() {
	knock(memory(
		redislimiter.TokenBucket(1, time.Second, 1),
		redislimiter.BlockAfter(2, time.Minute, 15*time.Minute)), 4)
	// Output:
	// admitted, 0 left
	// refused, try again in 1s
	// refused, try again in 15m0s
	// refused, try again in 15m0s
}

// What each of four instances enforces by itself while Redis is away.
func ExampleLimit_Share() {
	fmt.Println(redislimiter.TokenBucket(100, time.Second, 200).Share(4))
	fmt.Println(redislimiter.FixedWindow(1, time.Minute).Share(4))
	// Output:
	// token bucket of 50, 25 per 1s
	// fixed window, 1 per 4m0s
}

// A single instance needs no Redis. A bound on the keys comes with it.
func ExampleMemory() {
	limiter, err := redislimiter.NewMemory("api", redislimiter.TokenBucket(10, time.Second, 20))
	if err != nil {
		panic(err)
	}
	limiter.MaxKeys = 10_000
	result, err := limiter.Allow(ctx, "customer-7")
	fmt.Println(result.Allowed, result.Remaining, result.Source, err)
	// Output: true 19 memory <nil>
}

// A batch job takes what it can get.
func ExampleMemory_AllowAtMost() {
	limiter := memory(redislimiter.TokenBucket(1, time.Minute, 30))
	granted, _, err := limiter.AllowAtMost(ctx, "import", 100)
	fmt.Println(granted, err)
	// Output: 30 <nil>
}

// The support forgives a customer.
func ExampleMemory_Reset() {
	limiter := memory(redislimiter.FixedWindow(2, 24*time.Hour))
	knock(limiter, 2)
	fmt.Println(limiter.Reset(ctx, "customer-7"))
	knock(limiter, 1)
	// Output:
	// admitted, 1 left
	// admitted, 0 left
	// <nil>
	// admitted, 1 left
}

// An order that failed for our own fault does not count.
func ExampleMemory_Refund() {
	limiter := memory(redislimiter.FixedWindow(2, 24*time.Hour))
	knock(limiter, 2)
	fmt.Println(limiter.Refund(ctx, "customer-7", 1))
	knock(limiter, 1)
	// Output:
	// admitted, 1 left
	// admitted, 0 left
	// <nil>
	// admitted, 0 left
}

// Tried at start-up, so that a wrong password or a missing permission is found before
// the first request.
func ExampleLimiter_Check_misconfigured() {
	limiter, err := redislimiter.New(redis.NewClient(&redis.Options{Addr: "localhost:6379"}), "api",
		redislimiter.TokenBucket(10, time.Second, 20))
	if err != nil {
		panic(err)
	}
	if err := limiter.Check(ctx); errors.Is(err, redislimiter.ErrMisconfigured) {
		panic(err) // an outage ends by itself, this does not
	}
}
