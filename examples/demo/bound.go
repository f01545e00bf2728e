package main

import (
	"fmt"
	"math/big"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// atMost is the most that a limit can admit to one client within a span,
// whatever the client has done before. The zero Limit admits nothing.
func atMost(limit redislimiter.Limit, span time.Duration) int64 {
	if limit == (redislimiter.Limit{}) {
		return 0
	}
	span = max(span, 0)
	rate, per := big.NewInt(int64(limit.Rate())), big.NewInt(int64(limit.Per()))
	most := big.NewInt(int64(span))
	windows := map[string]int64{
		// Rate in any window: as many windows as it takes to cover the span.
		"sliding window log": 1,
		// Rate in each of the windows that the span touches.
		"sliding window counter": 2, "fixed window": 2,
	}
	if more, windowed := windows[limit.Algorithm()]; windowed {
		return most.Div(most, per).Add(most, big.NewInt(more)).Mul(most, rate).Int64()
	}
	// A full bucket, and whole tokens that came back.
	most.Mul(most, rate).Div(most, per)
	return most.Add(most, big.NewInt(int64(limit.Burst()))).Int64()
}

// A verdict is what was admitted, against what could be at most.
type verdict struct {
	admitted int64
	atMost   int64
	problems []string
}

// judge sums up the clients that a source has decided about. limiters is how
// many of them, each by itself, enforce the limit.
func judge(c *counts, source redislimiter.Source, limiters int, limit redislimiter.Limit, span time.Duration) verdict {
	var v verdict
	each := int64(limiters) * atMost(limit, span)
	for key := range c.keys(source) {
		admitted := int64(c.byClient(key, source, true))
		if admitted > each {
			v.problems = append(v.problems, fmt.Sprintf("%s was admitted %d times by %v, at most %d are possible", key, admitted, source, each))
		}
		v.admitted += admitted
		v.atMost += each
	}
	return v
}
