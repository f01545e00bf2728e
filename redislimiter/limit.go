package redislimiter

import (
	"fmt"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/model"
)

// A Limit is how much may be done, and by which algorithm it is counted. It is
// a plain, comparable value. Only the constructors named after the algorithms
// make one that [New] accepts; they check nothing themselves, so that limits
// can be package variables: New and [NewMemory] name what is wrong.
type Limit struct {
	rule model.Rule
}

// TokenBucket holds burst tokens at most and gets rate of them back every per,
// evenly: one every per/rate. A request takes its cost in tokens or is refused.
//
// Use it where bursts are fine as long as the average holds; it is what most
// APIs want. At worst it admits burst + rate units within any span of per, and
// never more than burst + rate × t/per within any span t. It takes one hash of
// two small fields for each key, about 100 bytes. Arithmetic is exact: no fraction
// of a token is lost or won.
//
// rate, burst: at least 1. per: whole microseconds up to ten years. The burst
// times the length of one token's refill is bounded where exact arithmetic
// ends; New says so, and the bound is far above practical use.
//
// Source: J. S. Turner, "New directions in communications (or which way to the
// information age?)", IEEE Communications Magazine 24(10), 1986, as a meter.
func TokenBucket(rate int, per time.Duration, burst int) Limit {
	return Limit{model.NewTokenBucket(rate, per, burst)}
}

// SlidingWindowLog admits at most rate units in any span of per, exactly, by
// remembering when each of them was admitted.
//
// Use it where the limit must hold for every window and rate is small, say up
// to a thousand: it stores every unit, 24 bytes each up to 128 units and about
// 140 bytes each beyond. A key lives for up to three times per after its last
// charge.
//
// rate: 1 to 1,000,000. per: whole microseconds up to ten years.
//
// Source: the sorted-set log described by P. Tarjan, "Scaling your API with
// rate limiters", Stripe, 2017, and many before; here a refusal is not logged,
// and members are running numbers.
func SlidingWindowLog(rate int, per time.Duration) Limit {
	return Limit{model.SlidingWindowLog{Rate: rate, Per: per}}
}

// Algorithm is the algorithm's name, such as "token bucket"; empty for the
// zero Limit.
func (l Limit) Algorithm() string {
	switch l.rule.(type) {
	case model.TokenBucket:
		return "token bucket"
	case model.SlidingWindowLog:
		return "sliding window log"
	}
	return ""
}

// Rate is how many units are admitted, on average, every [Limit.Per].
func (l Limit) Rate() int {
	switch r := l.rule.(type) {
	case model.TokenBucket:
		return r.Rate
	case model.SlidingWindowLog:
		return r.Rate
	}
	return 0
}

// Per is the period that [Limit.Rate] refers to.
func (l Limit) Per() time.Duration {
	switch r := l.rule.(type) {
	case model.TokenBucket:
		return r.Per
	case model.SlidingWindowLog:
		return r.Per
	}
	return 0
}

// Burst is the most that can be admitted at one instant: the largest n that
// AllowN can ever allow.
func (l Limit) Burst() int {
	if l.rule == nil {
		return 0
	}
	return int(l.rule.Capacity())
}

// String describes the limit, such as "token bucket of 20, 10 per 1s".
func (l Limit) String() string {
	switch r := l.rule.(type) {
	case model.TokenBucket:
		return fmt.Sprintf("token bucket of %d, %d per %v", r.Burst, r.Rate, r.Per)
	case model.SlidingWindowLog:
		return fmt.Sprintf("sliding window log, %d per %v", r.Rate, r.Per)
	}
	return "no limit"
}

// Share is the part of the limit that one of n instances may use by itself
// when they cannot ask Redis, for the Memory behind a [Fallback]: rates,
// bursts and queues divided by n, rounded down.
//
// A part smaller than one unit becomes one unit over a longer period, so that
// the average of all instances together still holds; at one instant n
// instances can then admit up to n units. n below 1 makes a limit that New refuses.
func (l Limit) Share(n int) Limit {
	switch r := l.rule.(type) {
	case model.TokenBucket:
		rate, per := share(r.Rate, r.Per, n)
		return TokenBucket(rate, per, shareOf(r.Burst, n))
	case model.SlidingWindowLog:
		r.Rate, r.Per = share(r.Rate, r.Per, n)
		return Limit{r}
	}
	return l
}

// share divides a rate by n. Where less than one unit would be left, the
// period grows instead, rounded up to whole microseconds.
func share(rate int, per time.Duration, n int) (int, time.Duration) {
	if n < 1 {
		return 0, per
	}
	if rate >= n || rate < 1 {
		return rate / n, per
	}
	longer := (per.Microseconds()*int64(n) + int64(rate) - 1) / int64(rate)
	return 1, time.Duration(longer) * time.Microsecond
}

// shareOf divides a size, which stays at least 1.
func shareOf(size, n int) int {
	if n < 1 || size < 1 {
		return size
	}
	return max(size/n, 1)
}

// rulesOf validates limits and takes their rules out.
func rulesOf(limits []Limit) ([]model.Rule, error) {
	if len(limits) == 0 {
		return nil, fmt.Errorf("limits: none given, at least one is required")
	}
	if len(limits) > model.MaxRules {
		return nil, fmt.Errorf("limits: %d given, at most %d are possible", len(limits), model.MaxRules)
	}
	rules := make([]model.Rule, len(limits))
	for i, l := range limits {
		if l.rule == nil {
			return nil, fmt.Errorf("limits[%d]: the zero Limit, use a constructor such as TokenBucket", i)
		}
		if err := l.rule.Validate(); err != nil {
			return nil, fmt.Errorf("limits[%d] (%s): %w", i, l.Algorithm(), err)
		}
		rules[i] = l.rule
	}
	return rules, nil
}

// capacityOf is the largest n that all rules can ever admit.
func capacityOf(rules []model.Rule) int64 {
	least := rules[0].Capacity()
	for _, r := range rules[1:] {
		least = min(least, r.Capacity())
	}
	return least
}
