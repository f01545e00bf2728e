package middleware

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// errClosed is what Failed hears when redislimiter.Closed has answered.
var errClosed = fmt.Errorf("middleware: the limiter fails closed: %w", redislimiter.ErrUnavailable)

// A serverFault is an error that neither the client nor Redis is to blame for.
type serverFault struct{ error }

func (e *serverFault) Unwrap() error { return e.error }

// statusOf is what a request is answered on which there is no decision.
func statusOf(err error) int {
	var fault *serverFault
	switch {
	case errors.Is(err, ErrNoKey), errors.Is(err, ErrBadKey):
		return http.StatusBadRequest
	case errors.As(err, &fault):
		return http.StatusInternalServerError
	case errors.Is(err, redislimiter.ErrNeverAllowed):
		return http.StatusRequestEntityTooLarge
	}
	return http.StatusServiceUnavailable
}

// fail answers a request on which there is no decision. retry is when to come
// back if that could help, which it never does for a fault of the request.
func (m *middleware) fail(w http.ResponseWriter, r *http.Request, err error, retry time.Duration) {
	h := w.Header()
	h["Cache-Control"] = noStore // a cache would prolong the outage
	if statusOf(err) == http.StatusServiceUnavailable {
		h[fieldRetry] = []string{strconv.FormatInt(max(secondsUp(retry), 1), 10)}
	}
	m.failed(w, r, err)
}

var noStore = []string{"no-store"}

// A problem is the body of an answer as RFC 9457 wants it.
type problem struct {
	Type       string   `json:"type"`
	Title      string   `json:"title"`
	Status     int      `json:"status"`
	Detail     string   `json:"detail"`
	Violated   []string `json:"violated-policies,omitempty"`
	RetryAfter int64    `json:"retry_after,omitempty"` // seconds, as in Retry-After
}

// The types that the IETF draft registers, and the one that says no more than
// the status.
const (
	quotaExceeded   = "https://iana.org/assignments/http-problem-types#quota-exceeded"
	reducedCapacity = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity"
	untyped         = "about:blank"
)

// DeniedProblem answers a refused request with status 429 and a problem
// document (RFC 9457), the default of [Options.Denied]:
//
//	{"type":"https://iana.org/assignments/http-problem-types#quota-exceeded",
//	 "title":"Too Many Requests","status":429,"detail":"Try again in 37 seconds.",
//	 "violated-policies":["login"],"retry_after":37}
func DeniedProblem(w http.ResponseWriter, _ *http.Request, r redislimiter.Result) {
	p := problem{
		Type: quotaExceeded, Title: http.StatusText(http.StatusTooManyRequests), Status: http.StatusTooManyRequests,
		Detail: retryText(retrySeconds(&r)), RetryAfter: retrySeconds(&r),
	}
	if policy := policyOf(&r); policy != nil {
		p.Violated = []string{policy.rule(&r).name}
	}
	p.write(w)
}

// DeniedText answers a refused request with status 429 in plain text, for
// [Options.Denied].
func DeniedText(w http.ResponseWriter, _ *http.Request, r redislimiter.Result) {
	http.Error(w, "Too many requests. "+retryText(retrySeconds(&r)), http.StatusTooManyRequests)
}

// FailedProblem answers a request on which there is no decision, the default of
// [Options.Failed], with a problem document (RFC 9457) and status
//
//   - 503 if the limiter could not decide, or is [redislimiter.Closed], or the client left;
//   - 400 for [ErrNoKey] and [ErrBadKey];
//   - 413 for [redislimiter.ErrNeverAllowed]: the request costs more than the
//     limit can ever admit, so that it has to become smaller, not later;
//   - 500 for other errors of a key function, and for a negative cost.
//
// It tells the client nothing of the error's text. To log errors, wrap it:
//
//	Failed: func(w http.ResponseWriter, r *http.Request, err error) {
//		slog.ErrorContext(r.Context(), "no decision", "error", err)
//		middleware.FailedProblem(w, r, err)
//	}
func FailedProblem(w http.ResponseWriter, _ *http.Request, err error) {
	status := statusOf(err)
	p := problem{Type: untyped, Title: http.StatusText(status), Status: status, Detail: failedText(status)}
	if status == http.StatusServiceUnavailable {
		p.Type = reducedCapacity
		p.RetryAfter, _ = strconv.ParseInt(w.Header().Get(fieldRetry), 10, 64)
	}
	p.write(w)
}

// FailedText is [FailedProblem] in plain text.
func FailedText(w http.ResponseWriter, _ *http.Request, err error) {
	status := statusOf(err)
	h := w.Header()
	http.Error(w, failedText(status), status)
	h["Cache-Control"] = noStore // http.Error may have dropped it
}

func retryText(seconds int64) string {
	if seconds == 1 {
		return "Try again in 1 second."
	}
	return "Try again in " + strconv.FormatInt(seconds, 10) + " seconds."
}

func failedText(status int) string {
	switch status {
	case http.StatusBadRequest:
		return "The request does not say clearly on whose behalf it comes."
	case http.StatusRequestEntityTooLarge:
		return "The request is more than the limit can ever admit at once. Make it smaller."
	case http.StatusInternalServerError:
		return "The server cannot tell on whose behalf the request comes."
	default:
		return "The request cannot be admitted at the moment. Try again soon."
	}
}

func (p *problem) write(w http.ResponseWriter) {
	body, err := json.Marshal(p)
	if err != nil { // strings and numbers always can
		body = nil
	}
	h := w.Header()
	// What a handler outside has announced is not what follows.
	for _, name := range []string{"Content-Encoding", "Etag", "Last-Modified"} {
		h.Del(name)
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	h.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(p.Status)
	_, _ = w.Write(body) // a client that left is no concern of ours
}
