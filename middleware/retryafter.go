package middleware

import (
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// retryAfter is how long an answer asks to wait, in either form that RFC 9110
// allows. Both 429 and 503 can ask.
func retryAfter(resp *http.Response) (wait time.Duration, asked bool) {
	if resp.StatusCode != http.StatusTooManyRequests && resp.StatusCode != http.StatusServiceUnavailable {
		return 0, false
	}
	value := strings.TrimSpace(resp.Header.Get(fieldRetry))
	seconds, err := strconv.ParseUint(value, 10, 63)
	if err == nil || errors.Is(err, strconv.ErrRange) { // out of range is the largest number
		return time.Duration(min(seconds, uint64(maxRetryAfter/time.Second))) * time.Second, true
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0, false
	}
	return min(max(time.Until(at), 0), maxRetryAfter), true
}

// repeat makes the request once more, or returns nil where sending it again
// could do harm: its body is gone, or after a 503 the server may have begun
// with it.
func repeat(req *http.Request, status int) *http.Request {
	if status != http.StatusTooManyRequests && !idempotent(req.Method) {
		return nil
	}
	again := req.Clone(req.Context())
	if req.Body == nil || req.Body == http.NoBody {
		return again
	}
	if req.GetBody == nil {
		return nil
	}
	body, err := req.GetBody()
	if err != nil {
		return nil
	}
	again.Body = body
	return again
}

func idempotent(method string) bool {
	switch method {
	case "", http.MethodGet, http.MethodHead, http.MethodOptions, http.MethodTrace, http.MethodPut, http.MethodDelete:
		return true
	}
	return false
}
