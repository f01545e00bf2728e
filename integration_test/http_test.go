package integration_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	"github.com/redislimiter/go-redislimiter/middleware"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// Fifty streams of one HTTP/2 connection, released together against a limit of 1.
func TestFiftyStreamsAndALimitOfOne(t *testing.T) {
	onEach(t, func(t *testing.T, kind servers.Kind) {
		const streams = 50
		limiter := newLimiter(t, dialWith(t, &redis.Options{Addr: servers.Shared(t, kind)}), rl.SlidingWindowLog(1, time.Hour))
		limiter.Timeout = patience
		var handled atomic.Int64
		server := httptest.NewUnstartedServer(middleware.New(limiter, middleware.ByIP(nil), nil)(
			http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				handled.Add(1)
				if r.ProtoMajor != 2 {
					t.Errorf("the request came by %s", r.Proto)
				}
			})))
		server.EnableHTTP2 = true
		server.StartTLS()
		defer server.Close()

		begin := make(chan struct{})
		var wg sync.WaitGroup
		var admitted, refused atomic.Int64
		for range streams {
			wg.Go(func() {
				<-begin
				answer, err := server.Client().Get(server.URL)
				if err != nil {
					t.Error(err)
					return
				}
				defer answer.Body.Close()
				_, _ = io.Copy(io.Discard, answer.Body)
				switch answer.StatusCode {
				case http.StatusOK:
					admitted.Add(1)
				case http.StatusTooManyRequests:
					refused.Add(1)
				}
			})
		}
		close(begin)
		wg.Wait()
		if admitted.Load() != 1 || refused.Load() != streams-1 || handled.Load() != 1 {
			t.Errorf("%d admitted, %d refused, %d handled", admitted.Load(), refused.Load(), handled.Load())
		}
	})
}
