package middleware

import (
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// Headers writes what a client is told about its limit. Choose one of
// [RateLimitFields] (the default), [RateLimitTriple], [XRateLimit],
// [XRateLimitEpoch] and [NoHeaders], put several together with [Combine], or
// write a function.
//
// It is called before the handler, once for each limiter that a request
// passes, but not for one that leaves more than what has been reported already:
// the client sees the most restrictive. It has to set headers, not add to them.
// Retry-After and X-RateLimit-Fallback are not its business.
type Headers func(h http.Header, r redislimiter.Result)

// RateLimitFields are the fields of the current IETF drafts
// (draft-ietf-httpapi-ratelimit-headers-08 to -11), the default:
//
//	RateLimit-Policy: "login";q=5;w=60
//	RateLimit: "login";r=4;t=37
//
// q units are admitted every w seconds (w is left out if the period is not
// whole seconds); r are left; after t seconds all are back, or a refused
// request can be admitted. The policy is named after the limiter. A limiter
// with several rules lists them all, numbered ("login.1", "login.2"), and
// reports the one that is nearest to refusing.
//
// A later draft that looks otherwise will be another name.
func RateLimitFields(h http.Header, r redislimiter.Result) {
	p := policyOf(&r)
	if p == nil {
		return
	}
	var buffer [96]byte
	h[fieldPolicy] = p.field
	value := values(2)
	value[0], value[1] = string(appendLimit(buffer[:0], p, &r)), token // a place for the note
	h[fieldLimit] = value[:1]
}

// Header names as net/http spells them; on the wire their case means nothing.
const (
	fieldPolicy   = "Ratelimit-Policy"
	fieldLimit    = "Ratelimit"
	fieldFallback = "X-Ratelimit-Fallback"
	fieldShadowed = "X-Ratelimit-Shadowed"
	fieldRetry    = "Retry-After"
)

// appendLimit writes the item of the RateLimit field.
func appendLimit(b []byte, p *policy, r *redislimiter.Result) []byte {
	b = append(b, p.rule(r).item...)
	b = appendInteger(b, int64(r.Remaining))
	b = append(b, ";t="...)
	return appendInteger(b, resetSeconds(r))
}

// RateLimitTriple are the three fields of the drafts up to -06, which many
// clients know:
//
//	RateLimit-Limit: 5
//	RateLimit-Remaining: 4
//	RateLimit-Reset: 37
//
// Limit is what can be used at one instant ([redislimiter.Limit.Burst]), and
// Reset is in seconds from now.
func RateLimitTriple(h http.Header, r redislimiter.Result) {
	setTriple(h, "Ratelimit-Limit", "Ratelimit-Remaining", "Ratelimit-Reset", &r, resetSeconds(&r))
}

// XRateLimit are X-RateLimit-Limit, X-RateLimit-Remaining and
// X-RateLimit-Reset, the last in seconds from now. See [XRateLimitEpoch].
func XRateLimit(h http.Header, r redislimiter.Result) {
	setTriple(h, "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", &r, resetSeconds(&r))
}

// XRateLimitEpoch is [XRateLimit] with X-RateLimit-Reset as a Unix time in
// seconds, as GitHub sends it. A client's clock has to be right for that.
func XRateLimitEpoch(h http.Header, r redislimiter.Result) {
	wait := r.ResetAfter
	if !r.Allowed {
		wait = max(r.RetryAfter, 1)
	}
	at := time.Now().Add(wait + time.Second - 1).Unix()
	setTriple(h, "X-Ratelimit-Limit", "X-Ratelimit-Remaining", "X-Ratelimit-Reset", &r, at)
}

func setTriple(h http.Header, limit, remaining, reset string, r *redislimiter.Result, at int64) {
	p := policyOf(r)
	if p == nil {
		return
	}
	three := values(3)
	three[0] = p.rule(r).burst
	three[1] = strconv.Itoa(max(r.Remaining, 0))
	three[2] = strconv.FormatInt(at, 10)
	h[limit], h[remaining], h[reset] = three[0:1:1], three[1:2:2], three[2:3:3]
}

// NoHeaders tells clients nothing before they are refused.
func NoHeaders(http.Header, redislimiter.Result) {}

// ShadowHeader sets "X-RateLimit-Shadowed: true" where [redislimiter.Shadow]
// let through what would have been refused, and nothing otherwise. Combine it
// with others, or use it alone, to see in access logs what a limit would do
// before it does.
func ShadowHeader(h http.Header, r redislimiter.Result) {
	if r.Shadowed {
		h[fieldShadowed] = yes
	}
}

var yes = []string{"true"}

// Combine writes several kinds of headers, for example both names of the same
// thing while clients move from one to the other. It panics if one is nil.
func Combine(all ...Headers) Headers {
	if slices.ContainsFunc(all, func(h Headers) bool { return h == nil }) {
		panic("middleware: Combine: an argument is nil")
	}
	all = slices.Clone(all)
	return func(h http.Header, r redislimiter.Result) {
		for _, write := range all {
			write(h, r)
		}
	}
}

// Exposed lists the headers that browsers have to be allowed to read, in
// Access-Control-Expose-Headers, when headers (nil: the default) are used by an
// API that is called from other origins. The CORS middleware belongs outside
// the limiter; otherwise scripts cannot even see that they were refused.
func Exposed(headers Headers) []string {
	if headers == nil {
		headers = RateLimitFields
	}
	h := http.Header{fieldRetry: nil, fieldFallback: nil}
	limit := redislimiter.TokenBucket(1, time.Second, 1)
	r := redislimiter.Result{Allowed: true, Name: "exposed", Limit: limit, Limits: []redislimiter.Limit{limit}}
	headers(h, r)
	r.Shadowed = true
	headers(h, r)
	return slices.Sorted(maps.Keys(h))
}

// fallbackFields are the values of X-RateLimit-Fallback, made once.
var fallbackFields = func() (fields [16][]string) {
	for i := range fields {
		fields[i] = []string{redislimiter.Source(i).String()}
	}
	return fields
}()

// markFallback tells, and tells whoever watches the traffic, that it was not the
// usual limiter that decided.
func markFallback(h http.Header, r *redislimiter.Result) {
	if !r.Degraded && counted(r) {
		return
	}
	if int(r.Source) < len(fallbackFields) {
		h[fieldFallback] = fallbackFields[r.Source]
		return
	}
	h[fieldFallback] = []string{r.Source.String()}
}

// counted tells whether there are numbers that a client could be told.
func counted(r *redislimiter.Result) bool {
	return r.Source != redislimiter.SourceOpen && r.Source != redislimiter.SourceClosed
}

// tellsNothing reports whether headers are of those that do not say what is left.
func tellsNothing(headers Headers) bool {
	code := reflect.ValueOf(headers).Pointer()
	return code == reflect.ValueOf(NoHeaders).Pointer() || code == reflect.ValueOf(ShadowHeader).Pointer()
}
