package redislimiter_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// newService stands for a service of yours: two orders an hour for each customer.
func newService(rdb *redis.Client) http.Handler {
	limiter, err := redislimiter.New(rdb, "orders", redislimiter.SlidingWindowLog(2, time.Hour))
	if err != nil {
		panic(err)
	}
	limit := middleware.New(limiter, middleware.ByHeader("X-API-Key"), nil)
	return limit(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintln(w, "ordered")
	}))
}

// order places one and returns the status.
func order(service http.Handler) int {
	r := httptest.NewRequest(http.MethodPost, "/orders", nil)
	r.Header.Set("X-API-Key", "customer-7")
	w := httptest.NewRecorder()
	service.ServeHTTP(w, r)
	return w.Code
}

func TestTwoOrdersAnHour(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := miniredis.NewMiniRedis()
		defer server.Close()
		server.ClockTTL(true) // its clock is the test's
		rdb := redis.NewClient(&redis.Options{
			Addr:   "127.0.0.1:6379", // not a name, which would be looked up outside the test's time
			Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
		})
		defer rdb.Close()

		service := newService(rdb)
		for _, want := range []int{200, 200, 429} {
			if got := order(service); got != want {
				t.Fatalf("got %d, want %d", got, want)
			}
		}
		time.Sleep(time.Hour) // takes no time
		if got := order(service); got != 200 {
			t.Fatalf("an hour later: %d", got)
		}
	})
}
