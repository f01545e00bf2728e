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

// FixedWindow admits rate units in a window of per, which begins with the first
// request and forgets everything when it ends.
//
// Use it where a quota is sold as such ("1,000 a day") and bursts do no harm.
// At worst it admits 2 × rate - 1 units within a span of per: rate at the end of
// a window that one unit had opened, less that one, and rate at the beginning of
// the next. It is not smooth: all of the rate may come at once. It takes one hash
// of one small field for each key, about 100 bytes.
//
// rate: at least 1. per: whole microseconds up to ten years.
//
// Source: folklore; among the first descriptions for Redis is the INCR
// command's own documentation.
func FixedWindow(rate int, per time.Duration) Limit {
	return Limit{model.FixedWindow{Rate: rate, Per: per}}
}

// SlidingWindowLog admits at most rate units in any span of per, exactly, by
// remembering when each of them was admitted.
//
// Use it where the limit must hold for every window and rate is small, say up
// to a thousand: it stores every unit, 24 bytes each up to 128 units and 120 to
// 140 bytes each beyond. A key lives for up to three times per after its last
// charge. It is not smooth: all of the rate may come at once.
//
// rate: 1 to 1,000,000. per: whole microseconds up to ten years.
//
// Source: the sorted-set log described by P. Tarjan, "Scaling your API with
// rate limiters", Stripe, 2017, and many before; here a refusal is not logged,
// and members are running numbers.
func SlidingWindowLog(rate int, per time.Duration) Limit {
	return Limit{model.SlidingWindowLog{Rate: rate, Per: per}}
}

// SlidingWindowCounter estimates the units in the last per from two counters: of
// the current window, and of the previous one the share that the sliding
// window still covers, as if its units had been spread evenly.
//
// Use it for large rates where a log would be too big and a fixed window too
// coarse. What it admits within a span of per is above rate only as far as the
// previous window's units came late in it: at worst just under 2 × rate, by
// traffic that knows the windows; on traffic that does not, a fraction of a
// percent of decisions differ from the log's. Windows begin at multiples of per since
// 1970, for all keys alike. It takes one hash of one small field for each
// key, about 100 bytes.
//
// rate: 1 to 2^42. per: whole microseconds up to ten years. Where rate × per,
// in microseconds, is above 2^52, the share changes in steps longer than a
// microsecond.
//
// Source: J. Desgats, "How we built rate limiting capable of scaling to
// millions of domains", Cloudflare, 2017.
func SlidingWindowCounter(rate int, per time.Duration) Limit {
	return Limit{model.NewSlidingWindowCounter(rate, per)}
}

// TokenBucket holds burst tokens at most and gets rate of them back every per,
// evenly: one every per/rate. A request takes its cost in tokens or is refused.
//
// Use it where bursts are fine as long as the average holds; it is what most
// APIs want. At worst it admits burst + rate units within any span of per, and
// never more than burst + rate × t/per within any span t. It takes one hash of
// one small field for each key, about 100 bytes, for up to twice as long as the
// bucket takes to be full again. Arithmetic is exact: no fraction of a token is
// lost or won.
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

// GCRA is the generic cell rate algorithm. It decides exactly as [TokenBucket]
// does, and takes the same arguments; it is stored as one string that is written
// together with its expiry, and takes about 100 bytes for each key.
//
// Use it in place of a token bucket where a key without expiry must be impossible
// whatever the ACL. Beside other rules it is stored with them.
//
// Source: ITU-T Recommendation I.371, annex A, in the form of the
// continuous-state leaky bucket.
func GCRA(rate int, per time.Duration, burst int) Limit {
	return Limit{model.GCRA{TokenBucket: model.NewTokenBucket(rate, per, burst)}}
}

// LeakyBucket is a queue that drains at a steady rate, one unit every per/rate.
// What it admits comes with a [Result.Delay] until its turn, which the caller
// has to wait; see [Wait]. What finds the queue full is refused. The queue counts
// the unit whose turn it is: from an idle queue of 3, requests go on after 0, 1
// and 2 times per/rate, and a fourth is refused.
//
// Use it in front of what must not see bursts, such as another company's API.
// Those that wait their Delay never come closer together than per/rate, so that at
// most rate + 1 units come within any span of per. Units that are given back are the
// exception: after that, also by a [Wait] that is cancelled, two callers can go at one
// instant. It is the smoothest, at the price of latency. It takes one hash of one
// small field for each key, about 100 bytes, for up to twice as long as the queue
// takes to be empty.
//
// rate, queue: at least 1. per: whole microseconds up to ten years.
//
// Source: the queue version of the leaky bucket, after Turner (see
// [TokenBucket]) and as in A. S. Tanenbaum, "Computer Networks".
func LeakyBucket(rate int, per time.Duration, queue int) Limit {
	return Limit{model.LeakyBucket{TokenBucket: model.NewTokenBucket(rate, per, queue)}}
}

// BlockAfter is a penalty beside other rules: once they have refused refusals
// requests within a window, which begins with the first of these, everything is
// refused for the time of block. Refusals during a block neither count nor
// extend it. It is shared by all instances and costs no trip of its own, but a
// refusal then writes.
//
// refusals: at least 1. within, block: whole microseconds up to ten years.
func BlockAfter(refusals int, within, block time.Duration) Limit {
	return Limit{model.BlockAfter{Refusals: refusals, Within: within, Block: block}}
}

// Algorithm is the algorithm's name, such as "token bucket"; empty for the
// zero Limit, and "block" for BlockAfter.
func (l Limit) Algorithm() string {
	switch l.rule.(type) {
	case model.FixedWindow:
		return "fixed window"
	case model.SlidingWindowLog:
		return "sliding window log"
	case model.SlidingWindowCounter:
		return "sliding window counter"
	case model.TokenBucket:
		return "token bucket"
	case model.GCRA:
		return "GCRA"
	case model.LeakyBucket:
		return "leaky bucket"
	case model.BlockAfter:
		return "block"
	}
	return ""
}

// bucket returns the parameters of the algorithms that have a burst.
func (l Limit) bucket() (model.TokenBucket, bool) {
	switch r := l.rule.(type) {
	case model.TokenBucket:
		return r, true
	case model.GCRA:
		return r.TokenBucket, true
	case model.LeakyBucket:
		return r.TokenBucket, true
	}
	return model.TokenBucket{}, false
}

func (l Limit) quota() (rate int, per time.Duration) {
	switch r := l.rule.(type) {
	case model.FixedWindow:
		return r.Rate, r.Per
	case model.SlidingWindowLog:
		return r.Rate, r.Per
	case model.SlidingWindowCounter:
		return r.Rate, r.Per
	case model.BlockAfter:
		return r.Refusals, r.Within
	}
	b, _ := l.bucket()
	return b.Rate, b.Per
}

// Rate is how many units are admitted, on average, every [Limit.Per]. For
// BlockAfter it is the refusals.
func (l Limit) Rate() int {
	rate, _ := l.quota()
	return rate
}

// Per is the period that [Limit.Rate] refers to.
func (l Limit) Per() time.Duration {
	_, per := l.quota()
	return per
}

// String describes the limit, such as "token bucket of 20, 10 per 1s".
func (l Limit) String() string {
	if l.rule == nil {
		return "no limit"
	}
	if b, ok := l.rule.(model.BlockAfter); ok {
		return fmt.Sprintf("block for %v after %d refusals within %v", b.Block, b.Refusals, b.Within)
	}
	rate, per := l.quota()
	if b, ok := l.bucket(); ok {
		return fmt.Sprintf("%s of %d, %d per %v", l.Algorithm(), b.Burst, rate, per)
	}
	return fmt.Sprintf("%s, %d per %v", l.Algorithm(), rate, per)
}

// Burst is the most that can be admitted at one instant: the largest n that
// AllowN can ever allow. It is 0 for BlockAfter, which admits nothing by
// itself.
func (l Limit) Burst() int {
	if l.rule == nil || l.rule.Capacity() == model.Unlimited {
		return 0
	}
	return int(l.rule.Capacity())
}

// Share is the part of the limit that one of n instances may use by itself
// when they cannot ask Redis, for the Memory behind a [Fallback]: rates,
// bursts and queues divided by n, rounded down.
//
// A part smaller than one unit becomes one unit over a longer period, so that
// the average of all instances together still holds; at one instant n
// instances can then admit up to n units. n below 1 makes a limit that New refuses.
// A BlockAfter is returned as it is.
func (l Limit) Share(n int) Limit {
	bucket := func(b model.TokenBucket) (int, time.Duration, int) {
		rate, per := share(b.Rate, b.Per, n)
		return rate, per, shareOf(b.Burst, n)
	}
	switch r := l.rule.(type) {
	case model.FixedWindow:
		return FixedWindow(share(r.Rate, r.Per, n))
	case model.SlidingWindowLog:
		return SlidingWindowLog(share(r.Rate, r.Per, n))
	case model.SlidingWindowCounter:
		return SlidingWindowCounter(share(r.Rate, r.Per, n))
	case model.TokenBucket:
		return TokenBucket(bucket(r))
	case model.GCRA:
		return GCRA(bucket(r.TokenBucket))
	case model.LeakyBucket:
		return LeakyBucket(bucket(r.TokenBucket))
	}
	return l // a penalty is the same everywhere
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
	if capacityOf(rules) == model.Unlimited {
		return nil, fmt.Errorf("limits: BlockAfter needs another rule beside it, whose refusals it counts")
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
