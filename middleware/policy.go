package middleware

import (
	"math"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A policy is what never changes about a limiter's headers: made once, because
// it would otherwise cost more than the decision.
type policy struct {
	limiter string
	rules   []rule
	field   []string // the whole RateLimit-Policy field
}

// A rule is what never changes about one limit of a limiter.
type rule struct {
	name  string // in headers and problems
	item  string // the beginning of a RateLimit item, up to its number
	burst string // the number in the fields called Limit
}

// The policies made so far, by the address of the limiter's rules, which all of
// its results share. Results that come with ever new slices must not fill the
// memory, so all are forgotten when there are too many.
var (
	policies     sync.Map // *redislimiter.Limit → *policy
	policiesHeld atomic.Int64
)

const maxPolicies = 1024

// policyOf is nil for a result that names no limiter.
func policyOf(r *redislimiter.Result) *policy {
	if r.Name == "" {
		return nil
	}
	if len(r.Limits) == 0 {
		return newPolicy(r.Name, []redislimiter.Limit{r.Limit})
	}
	first := &r.Limits[0]
	if known, ok := policies.Load(first); ok {
		if p := known.(*policy); p.limiter == r.Name && len(p.rules) == len(r.Limits) {
			return p
		}
		return newPolicy(r.Name, r.Limits)
	}
	if policiesHeld.Add(1) > maxPolicies {
		policies.Clear()
		policiesHeld.Store(1)
	}
	p := newPolicy(r.Name, r.Limits)
	policies.Store(first, p)
	return p
}

// newPolicy names the rules: a single one like its limiter; several get a
// number each, since the name is what tells a client's policies apart. A
// penalty (BlockAfter) is no quota: it has a name, but is not announced.
func newPolicy(limiter string, limits []redislimiter.Limit) *policy {
	p := &policy{limiter: limiter}
	quotas := len(limits) - countFunc(limits, penalty)
	var field []byte
	for i, limit := range limits {
		name := limiter
		switch {
		case penalty(limit):
			name += ".block"
		case quotas > 1:
			name += "." + strconv.Itoa(i+1)
		}
		quoted := appendString(nil, name)
		p.rules = append(p.rules, rule{name, string(quoted) + ";r=", strconv.Itoa(limit.Burst())})
		if penalty(limit) {
			continue
		}
		if field != nil {
			field = append(field, ", "...)
		}
		field = append(field, quoted...)
		field = append(field, ";q="...)
		field = appendInteger(field, int64(limit.Rate()))
		// The draft has no fractions of a second.
		if per := limit.Per(); per >= time.Second && per%time.Second == 0 {
			field = append(field, ";w="...)
			field = appendInteger(field, int64(per/time.Second))
		}
	}
	p.showPenalties(limits)
	p.field = []string{string(field)}
	return p
}

func penalty(l redislimiter.Limit) bool { return l.Algorithm() == "block" }

func countFunc(limits []redislimiter.Limit, f func(redislimiter.Limit) bool) (n int) {
	for _, limit := range limits {
		if f(limit) {
			n++
		}
	}
	return n
}

// showPenalties gives penalties the number of the first quota, since a client
// that is blocked is still told how much it may do otherwise.
func (p *policy) showPenalties(limits []redislimiter.Limit) {
	quota := slices.IndexFunc(limits, func(l redislimiter.Limit) bool { return !penalty(l) })
	for i := range limits {
		if penalty(limits[i]) && quota >= 0 {
			p.rules[i].burst = p.rules[quota].burst
		}
	}
}

// rule finds the rule that a result is about.
func (p *policy) rule(r *redislimiter.Result) *rule {
	if len(p.rules) > 1 {
		for i := range r.Limits {
			if r.Limits[i] == r.Limit {
				return &p.rules[i]
			}
		}
	}
	return &p.rules[0]
}

// appendString writes a String of structured fields (RFC 9651): printable
// ASCII in quotes. Limiters have no other names; those of an AllowerFunc's own
// results might.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for i := range len(s) {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b = append(b, '\\', c)
		case c < ' ' || c > '~':
			b = append(b, '_')
		default:
			b = append(b, c)
		}
	}
	return append(b, '"')
}

// appendInteger writes an Integer of structured fields: 15 digits at most, and
// here never negative.
func appendInteger(b []byte, n int64) []byte {
	return strconv.AppendInt(b, min(max(n, 0), 999_999_999_999_999), 10)
}

// secondsUp rounds up to whole seconds: a client that comes back a moment too
// early is refused again.
func secondsUp(d time.Duration) int64 {
	d = min(max(d, 0), math.MaxInt64-time.Second) // the sum must not overflow
	return int64((d + time.Second - 1) / time.Second)
}

// resetSeconds is when it pays to come back. A refused client is told the same
// as in Retry-After, which must not be earlier than the other headers say.
func resetSeconds(r *redislimiter.Result) int64 {
	if r.Allowed {
		return secondsUp(r.ResetAfter)
	}
	return retrySeconds(r)
}

// retrySeconds is the value of Retry-After: at least 1, since 0 invites a
// client to come back at once.
func retrySeconds(r *redislimiter.Result) int64 {
	return max(secondsUp(r.RetryAfter), 1)
}
