package middleware

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// ErrWait is wrapped by the error of a [Transport] for a request that would
// have to wait longer than MaxWait. It was not sent.
var ErrWait = errors.New("middleware: the wait would be longer than MaxWait")

const (
	defaultMaxWait = time.Minute
	maxPauses      = 1024
	maxRetryAfter  = 365 * 24 * time.Hour // beyond, the arithmetic could overflow
)

// A Transport is the other side: an [http.RoundTripper] for clients of an API
// that limits them. It holds each request until Limiter admits it, and it
// holds all requests to a host that has answered 429 or 503 with Retry-After
// until that time.
//
//	client := &http.Client{Transport: &middleware.Transport{Limiter: limiter}}
//
// With a Limiter in Redis all instances together keep within the API's limit.
// What a host says in Retry-After is known to this Transport alone.
//
// The fields are set before the first use. A Transport must not be copied after it.
type Transport struct {
	// Base sends the requests. nil: http.DefaultTransport.
	Base http.RoundTripper

	// Limiter is asked for one unit before each request. nil: only
	// Retry-After is honoured. A request is not sent if it cannot decide.
	Limiter redislimiter.Allower

	// Key tells which requests share a limit. nil: those to one host and
	// port. For Skip a request is sent at once; other errors are returned.
	Key KeyFunc

	// MaxWait bounds how long a request is held. One that would be held longer
	// fails at once with ErrWait, and with context.DeadlineExceeded if its
	// context would end before that. 0: one minute.
	MaxWait time.Duration

	// Retries is how often a request that was answered 429 or 503 with
	// Retry-After is sent again after that time. 0: never. The last answer is
	// returned, and so is one that asks to wait longer than MaxWait, or after
	// which Limiter does not admit the request in time. Only requests whose
	// body can be had again (http.Request.GetBody) are, and after a 503 only
	// those of idempotent methods.
	Retries int

	mu     sync.Mutex
	paused map[string]time.Time // by key, until when; guarded by mu
}

// RoundTrip waits for its turn and sends the request. Its errors are those of
// Base, of Limiter, of Key, of the request's context, and [ErrWait].
func (t *Transport) RoundTrip(req *http.Request) (*http.Response, error) {
	key, err := t.keyOf(req)
	if errors.Is(err, Skip) {
		return t.base().RoundTrip(req)
	}
	if err != nil {
		return nil, abandon(req, err)
	}
	var last *http.Response // while the request waits to be sent again
	for try := 0; ; try++ {
		if err := t.wait(req.Context(), key); err != nil {
			abandon(req, err)
			if last != nil && req.Context().Err() == nil {
				return last, nil
			}
			leave(last)
			return nil, err
		}
		leave(last)
		resp, err := t.base().RoundTrip(req)
		if err != nil {
			return nil, err
		}
		pause, asked := retryAfter(resp)
		if !asked {
			return resp, nil
		}
		t.pause(key, time.Now().Add(pause))
		if try >= t.Retries || !t.canWait(req.Context(), pause) {
			return resp, nil
		}
		again := repeat(req, resp.StatusCode)
		if again == nil {
			return resp, nil
		}
		req, last = again, resp
	}
}

// leave closes an answer that nobody will read. A small one is read, so that the
// connection can be used again.
func leave(resp *http.Response) {
	if resp == nil {
		return
	}
	if resp.ContentLength >= 0 && resp.ContentLength <= 4<<10 {
		_, _ = io.Copy(io.Discard, resp.Body)
	}
	resp.Body.Close()
}

func (t *Transport) base() http.RoundTripper {
	if t.Base == nil {
		return http.DefaultTransport
	}
	return t.Base
}

// CloseIdleConnections closes those of Base, for [http.Client.CloseIdleConnections].
func (t *Transport) CloseIdleConnections() {
	if base, ok := t.base().(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}

func (t *Transport) keyOf(req *http.Request) (string, error) {
	switch {
	case t.MaxWait < 0:
		return "", fmt.Errorf("middleware: Transport: MaxWait is %v, must not be negative", t.MaxWait)
	case t.Retries < 0:
		return "", fmt.Errorf("middleware: Transport: Retries is %d, must not be negative", t.Retries)
	case t.Key != nil:
		return keyOf(t.Key, req)
	case req.URL == nil || req.URL.Host == "":
		return "", errors.New("middleware: Transport: the request has no host")
	}
	return hostOf(req.URL), nil
}

// hostOf names a host and port in one way only.
func hostOf(u *url.URL) string {
	host, port := strings.TrimSuffix(strings.ToLower(u.Hostname()), "."), u.Port()
	if port == "" || port == "443" && u.Scheme == "https" || port == "80" && u.Scheme == "http" {
		return host
	}
	return net.JoinHostPort(host, port)
}

func (t *Transport) maxWait() time.Duration {
	if t.MaxWait == 0 {
		return defaultMaxWait
	}
	return t.MaxWait
}

// canWait tells whether a request can be sent again after a pause. Otherwise
// the answer that asks for the pause is better than an error.
func (t *Transport) canWait(ctx context.Context, pause time.Duration) bool {
	deadline, ok := ctx.Deadline()
	return pause <= t.maxWait() && (!ok || time.Until(deadline) > pause)
}

// wait holds a request until its host can be asked and its limiter admits it.
func (t *Transport) wait(ctx context.Context, key string) error {
	limit := t.maxWait()
	bounded, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := t.waitPause(bounded, key)
	if err == nil && t.Limiter != nil {
		if err = redislimiter.Wait(bounded, t.Limiter, key, 1); err == nil {
			err = t.waitPause(bounded, key) // one may have begun meanwhile
		}
	}
	if errors.Is(err, context.DeadlineExceeded) && !errors.Is(err, redislimiter.ErrUnavailable) {
		end, _ := bounded.Deadline()
		if callers, ok := ctx.Deadline(); !ok || end.Before(callers) {
			return fmt.Errorf("%w of %v", ErrWait, limit)
		}
	}
	return err
}

// waitPause waits until no pause is left, since others may lengthen it
// meanwhile, or fails at once if ctx ends before.
func (t *Transport) waitPause(ctx context.Context, key string) error {
	for {
		t.mu.Lock()
		until := t.paused[key]
		t.mu.Unlock()
		wait := time.Until(until)
		if wait <= 0 {
			return ctx.Err()
		}
		if deadline, ok := ctx.Deadline(); ok && until.After(deadline) {
			return context.DeadlineExceeded
		}
		if err := sleep(ctx, wait); err != nil {
			return err
		}
	}
}

// pause holds the requests of a key. There is a bound, so that a client of many
// hosts does not remember all of them; who is forgotten will say so again.
func (t *Transport) pause(key string, until time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if until.Before(t.paused[key]) {
		return
	}
	if t.paused == nil {
		t.paused = map[string]time.Time{}
	}
	if len(t.paused) >= maxPauses {
		now := time.Now()
		for other, end := range t.paused {
			if len(t.paused) >= maxPauses || end.Before(now) {
				delete(t.paused, other)
			}
		}
	}
	t.paused[key] = until
}

// abandon keeps the promise of a RoundTripper that it closes the body.
func abandon(req *http.Request, err error) error {
	if req.Body != nil {
		req.Body.Close()
	}
	return err
}
