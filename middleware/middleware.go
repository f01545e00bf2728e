package middleware

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// Options are the choices of a middleware. The zero value of each field, and
// a nil *Options, is the default that the field documents. They are read by
// [New] and must not be changed afterwards.
type Options struct {
	// Cost is how many units a request takes. nil: 1. It must not be
	// negative, which is answered 500; above what the limit can ever admit it
	// is answered 413. With 0 a request takes nothing, but is refused like any
	// other while nothing is left; use Skip to let it pass.
	Cost func(*http.Request) int

	// Headers writes the headers of every decision. nil: RateLimitFields.
	Headers Headers

	// Denied answers a refused request. nil: DeniedProblem, a 429. The
	// headers, Retry-After included, are set before it is called.
	Denied func(http.ResponseWriter, *http.Request, redislimiter.Result)

	// Failed answers a request on which there is no decision. nil:
	// FailedProblem, which tells the errors apart. Cache-Control, and
	// Retry-After where waiting helps, are set before it is called. It
	// cannot let the request pass: that is for a redislimiter.Fallback with
	// redislimiter.Open to decide, visibly.
	Failed func(http.ResponseWriter, *http.Request, error)

	// Skip reports requests that pass uncounted and without headers, such as
	// health checks or those of an allow-list. nil: Preflight. A function of
	// yours replaces that, so call Preflight in it if browsers use the API.
	Skip func(*http.Request) bool

	// OnlyFailures makes failures alone count, such as wrong passwords. It
	// tells by the status of the answer whether it is one. nil: everything
	// counts.
	//
	// The request is charged before it is handled, and given back if the answer
	// is no failure: requests sent at the same time cannot all slip through.
	// A handler that panics has failed, and so has one whose client leaves before
	// an answer was begun; over HTTP/1 net/http notices that only once the body
	// of the request has been read. A connection that is taken over (hijacked) counts as
	// status 101. Only with this option is the ResponseWriter wrapped; Flusher,
	// Hijacker and http.ResponseController work nevertheless.
	OnlyFailures func(status int) bool
}

// A middleware is one limiter as New has put it together.
type middleware struct {
	limiter redislimiter.Allower
	id      uint64
	key     KeyFunc
	check   keyCheck

	cost         func(*http.Request) int
	headers      Headers
	plain        bool // headers is RateLimitFields
	silent       bool // headers tells nothing of what is left
	denied       func(http.ResponseWriter, *http.Request, redislimiter.Result)
	failed       func(http.ResponseWriter, *http.Request, error)
	skip         func(*http.Request) bool
	onlyFailures func(int) bool
	refunds      sync.Once // logs the first that failed
}

// New makes a middleware that asks l about every request, by the key that key
// finds, and calls the next handler only if l admits it. See the package's
// overview for what is answered when.
//
// It is a plain func(http.Handler) http.Handler, which chi's Use and With take
// as it is. New panics if l or key is nil: like a wrong pattern of a
// ServeMux, that is a fault of the program, found when it starts.
func New(l redislimiter.Allower, key KeyFunc, opts *Options) func(http.Handler) http.Handler {
	if l == nil {
		panic("middleware: New: l is nil")
	}
	if key == nil {
		panic("middleware: New: key is nil: choose ByIP, ByHeader, … or Const")
	}
	var o Options
	if opts != nil {
		o = *opts
	}
	m := &middleware{
		limiter: l, id: limiterID(l), key: key,
		cost: o.Cost, headers: o.Headers, plain: o.Headers == nil, silent: tellsNothing(o.Headers), denied: o.Denied, failed: o.Failed,
		skip: o.Skip, onlyFailures: o.OnlyFailures,
	}
	m.check.off.Store(constant(key))
	if m.headers == nil {
		m.headers = RateLimitFields
	}
	if m.denied == nil {
		m.denied = DeniedProblem
	}
	if m.failed == nil {
		m.failed = FailedProblem
	}
	if m.skip == nil {
		m.skip = Preflight
	}
	return func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { m.serve(w, r, next) })
	}
}

// Preflight reports whether a request is the question of a browser's CORS
// protocol whether a script may send another one: OPTIONS with Origin and
// Access-Control-Request-Method. Refusing it would break the script without
// telling it why.
//
// Anybody can send such a request, so handlers must not do on OPTIONS what the
// limiter protects: register them with their method ("POST /login").
func Preflight(r *http.Request) bool {
	return r.Method == http.MethodOptions &&
		len(r.Header["Origin"]) > 0 && len(r.Header["Access-Control-Request-Method"]) > 0
}

func (m *middleware) serve(w http.ResponseWriter, r *http.Request, next http.Handler) {
	if m.skip(r) {
		next.ServeHTTP(w, r)
		return
	}
	key, err := keyOf(m.key, r)
	switch {
	case err == nil:
	case errors.Is(err, Skip):
		next.ServeHTTP(w, r)
		return
	default:
		m.fail(w, r, m.check.failed(r.Context(), err), 0)
		return
	}
	cost := 1
	if m.cost != nil {
		cost = m.cost(r)
	}
	if cost < 0 {
		m.fail(w, r, &serverFault{fmt.Errorf("middleware: Options.Cost returned %d, must not be negative", cost)}, 0)
		return
	}
	id := chargeID(m.id, key)
	m.check.same(r.Context(), id)
	m.decide(w, r, next, key, charge{id: id, cost: cost})
}

// decide asks the limiter, and goes on with the request if it may.
func (m *middleware) decide(w http.ResponseWriter, r *http.Request, next http.Handler, key string, asked charge) {
	h := w.Header()
	before := chargesIn(h)
	n := asked.cost
	outside, twice := before.cost(asked.id)
	if twice {
		if n -= outside; n <= 0 { // mounted twice: the higher cost counts, once
			next.ServeHTTP(w, r)
			return
		}
	}
	result, err := m.limiter.AllowN(r.Context(), key, n)
	switch {
	case err != nil:
		m.fail(w, r, err, time.Second)
		return
	case !result.Allowed && result.Source == redislimiter.SourceClosed:
		markFallback(h, &result)
		m.fail(w, r, errClosed, result.RetryAfter)
		return
	}
	m.report(h, &result, asked, before)
	if !result.Allowed {
		if twice {
			asked.cost = refusedInside
			keep(h, string(asked.appendNote(nil, before)))
		}
		h[fieldRetry] = []string{strconv.FormatInt(retrySeconds(&result), 10)}
		m.denied(w, r, result)
		return
	}
	if before == "" {
		defer forget(h)
	}
	if !m.proceed(w, r, next, result.Delay) || n > 0 && chargesIn(h).refused(asked.id) {
		m.giveBack(r, result, n)
	}
}

// proceed hands an admitted request on, after the delay that it was admitted
// with. It reports whether it is to stay charged. A client that leaves meanwhile
// has used nothing.
func (m *middleware) proceed(w http.ResponseWriter, r *http.Request, next http.Handler, delay time.Duration) bool {
	if delay > 0 {
		if err := sleep(r.Context(), delay); err != nil {
			m.fail(w, r, err, time.Second)
			return false
		}
	}
	if m.onlyFailures != nil {
		return m.hasFailed(w, r, next)
	}
	next.ServeHTTP(w, r)
	return true
}

// sleep waits, but no longer than the caller does.
func sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
