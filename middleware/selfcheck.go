package middleware

import (
	"context"
	"errors"
	"log/slog"
	"reflect"
	"sync"
	"sync/atomic"
)

// sameKeyAfter is how many requests in a row must have had the same key before
// that is worth a line in the log.
const sameKeyAfter = 1000

// A keyCheck watches a key function for what makes a limiter useless while
// everything seems to work. Each thing is logged once.
type keyCheck struct {
	off    atomic.Bool // no more to watch
	first  atomic.Uint64
	count  atomic.Int64
	faulty sync.Once
}

// same watches whether all requests have the same key, which behind a proxy
// that nobody trusts means that all clients share one limit.
func (c *keyCheck) same(ctx context.Context, id uint64) {
	if c.off.Load() {
		return
	}
	c.first.CompareAndSwap(0, id)
	if c.first.Load() != id {
		c.off.Store(true)
		return
	}
	if c.count.Add(1) == sameKeyAfter {
		c.off.Store(true)
		slog.WarnContext(ctx, "redislimiter: all requests so far have the same key, so they share one limit: "+
			"if a proxy is in front, see middleware.Proxies; if one key is meant, use middleware.Const", "requests", sameKeyAfter)
	}
}

// failed logs the first error that is not the client's fault, since such a one
// is likely to meet every request, and tells it apart.
func (c *keyCheck) failed(ctx context.Context, err error) error {
	if errors.Is(err, ErrNoKey) || errors.Is(err, ErrBadKey) {
		return err
	}
	if ctx.Err() != nil { // the client has left, which is no fault
		return &serverFault{err}
	}
	c.faulty.Do(func() {
		slog.ErrorContext(ctx, "redislimiter: the key function fails, requests are answered 500 (logged once)", "error", err)
	})
	return &serverFault{err}
}

// constant recognises the key functions that are meant to give the same key:
// Const, and ByRoute around a single route.
func constant(key KeyFunc) bool {
	code := reflect.ValueOf(key).Pointer()
	return code == reflect.ValueOf(Const("x")).Pointer() || code == reflect.ValueOf(ByRoute).Pointer()
}
