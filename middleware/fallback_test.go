package middleware_test

import (
	"testing"
	"time"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// With Redis away, the answer is what the policy says, and says so itself.
func TestFallback(t *testing.T) {
	broken := answer(redislimiter.Result{}, redislimiter.ErrUnavailable)
	local := memory(t, "api", 1)
	tests := []struct {
		name    string
		limiter redislimiter.Allower
		status  int
		mark    string // X-RateLimit-Fallback
		told    bool   // whether RateLimit is there
	}{
		{"no policy", broken, 503, "", false},
		{"open", &redislimiter.Fallback{Primary: broken, Secondary: redislimiter.Open}, 200, "open", false},
		{"closed", &redislimiter.Fallback{Primary: broken, Secondary: redislimiter.Closed}, 503, "closed", false},
		{"local, admitted", &redislimiter.Fallback{Primary: broken, Secondary: local}, 200, "memory", true},
		{"local, refused", &redislimiter.Fallback{Primary: broken, Secondary: local}, 429, "memory", true},
		{"Redis is there", &redislimiter.Fallback{Primary: answer(admission("api", 1, 0), nil), Secondary: redislimiter.Open}, 200, "", true},
		{"Memory that is no fallback", memory(t, "api", 1), 200, "", true},
		{"Open without a Fallback", redislimiter.Open, 200, "open", false},
		{"a source that is yet to come", answer(redislimiter.Result{Allowed: true, Degraded: true, Source: 200}, nil), 200, "none", false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			resp := serve(middleware.New(test.limiter, middleware.Const("k"), nil)(new(reached)), from("203.0.113.9:1"))
			told := resp.Header.Get("RateLimit") != ""
			if mark := resp.Header.Get("X-RateLimit-Fallback"); resp.StatusCode != test.status || mark != test.mark || told != test.told {
				t.Errorf("status %d, marked %q, headers %v", resp.StatusCode, mark, resp.Header)
			}
		})
	}
}

// A closed fallback that knows when to come back says so.
func TestClosedRetryAfter(t *testing.T) {
	r := redislimiter.Result{Source: redislimiter.SourceClosed, RetryAfter: 2500 * time.Millisecond}
	resp := serve(middleware.New(answer(r, nil), middleware.Const("k"), nil)(new(reached)), from("203.0.113.9:1"))
	if resp.StatusCode != 503 || resp.Header.Get("Retry-After") != "3" {
		t.Errorf("status %d, Retry-After %q", resp.StatusCode, resp.Header.Get("Retry-After"))
	}
}
