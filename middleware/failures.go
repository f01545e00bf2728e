package middleware

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"

	"github.com/felixge/httpsnoop"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// hasFailed calls the handler, and reports whether its answer was a failure. The
// request was charged before, so that there is nothing to do where nothing is known:
// a panic leaves it charged.
func (m *middleware) hasFailed(w http.ResponseWriter, r *http.Request, next http.Handler) bool {
	var seen outcome
	next.ServeHTTP(seen.watch(w), r)
	status := seen.status
	if status == 0 {
		if r.Context().Err() != nil {
			return true // whoever leaves before the answer must not have tried for free
		}
		status = http.StatusOK // what net/http sends for a handler that sends nothing
	}
	return m.onlyFailures(status)
}

// giveBack refunds n units, also when the client is gone.
func (m *middleware) giveBack(r *http.Request, result redislimiter.Result, n int) {
	ctx := context.WithoutCancel(r.Context())
	if err := result.Refund(ctx, n); err != nil {
		m.refunds.Do(func() {
			slog.ErrorContext(ctx, "redislimiter: units could not be given back and stay charged (logged once)", "error", err)
		})
	}
}

// An outcome is the status of an answer, or 0 while there is none.
type outcome struct {
	status int
}

func (o *outcome) set(status int) {
	informational := status < 200 && status != http.StatusSwitchingProtocols
	if o.status == 0 && !informational {
		o.status = status
	}
}

// watch wraps a ResponseWriter without taking away what else it can do.
func (o *outcome) watch(w http.ResponseWriter) http.ResponseWriter {
	return httpsnoop.Wrap(w, httpsnoop.Hooks{
		WriteHeader: func(next httpsnoop.WriteHeaderFunc) httpsnoop.WriteHeaderFunc {
			return func(status int) { o.set(status); next(status) }
		},
		Write: func(next httpsnoop.WriteFunc) httpsnoop.WriteFunc {
			return func(b []byte) (int, error) { o.set(http.StatusOK); return next(b) }
		},
		WriteString: func(next httpsnoop.WriteStringFunc) httpsnoop.WriteStringFunc {
			return func(s string) (int, error) { o.set(http.StatusOK); return next(s) }
		},
		ReadFrom: func(next httpsnoop.ReadFromFunc) httpsnoop.ReadFromFunc {
			return func(src io.Reader) (int64, error) { o.set(http.StatusOK); return next(src) }
		},
		Flush: func(next httpsnoop.FlushFunc) httpsnoop.FlushFunc {
			return func() { o.set(http.StatusOK); next() }
		},
		FlushError: func(next httpsnoop.FlushErrorFunc) httpsnoop.FlushErrorFunc {
			return func() error { o.set(http.StatusOK); return next() }
		},
		Hijack: func(next httpsnoop.HijackFunc) httpsnoop.HijackFunc {
			return func() (net.Conn, *bufio.ReadWriter, error) {
				conn, buffered, err := next()
				if err == nil {
					o.set(http.StatusSwitchingProtocols)
				}
				return conn, buffered, err
			}
		},
	})
}
