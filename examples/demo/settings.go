package main

import (
	"fmt"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// settings are what can be changed while the demo runs. They come from flags,
// from the page, and go to every instance.
type settings struct {
	Algorithm    string `json:"algorithm"`
	Rate         int    `json:"rate"`
	Per          span   `json:"per"`
	Burst        int    `json:"burst"`        // of algorithms that have one
	OnFailure    string `json:"onFailure"`    // open, closed or local
	CacheDenials bool   `json:"cacheDenials"` // remember refusals in the instances
	Connected    bool   `json:"connected"`    // false: the cable to Redis is pulled
	Instances    int    `json:"instances"`    // how many share the limit
}

// span is a duration that is text in JSON, such as "1.5s".
type span time.Duration

func (s span) String() string                { return time.Duration(s).String() }
func (s span) MarshalText() ([]byte, error)  { return []byte(s.String()), nil }
func (s *span) UnmarshalText(b []byte) error { return s.set(string(b)) }
func (s *span) set(text string) error {
	d, err := time.ParseDuration(text)
	*s = span(d)
	return err
}

// An algorithm is one that the demo can be set to.
type algorithm struct {
	name     string // in flags, URLs and the page
	hasBurst bool
	make     func(rate int, per time.Duration, burst int) redislimiter.Limit
}

// unburst adapts the constructors of algorithms without a burst.
func unburst(f func(int, time.Duration) redislimiter.Limit) func(int, time.Duration, int) redislimiter.Limit {
	return func(rate int, per time.Duration, _ int) redislimiter.Limit { return f(rate, per) }
}

var algorithms = []algorithm{
	{"window", false, unburst(redislimiter.FixedWindow)},
	{"counter", false, unburst(redislimiter.SlidingWindowCounter)},
	{"log", false, unburst(redislimiter.SlidingWindowLog)},
	{"bucket", true, redislimiter.TokenBucket},
	{"gcra", true, redislimiter.GCRA},
	{"leaky", true, redislimiter.LeakyBucket},
}

func algorithmOf(name string) (algorithm, error) {
	for _, a := range algorithms {
		if a.name == name {
			return a, nil
		}
	}
	return algorithm{}, fmt.Errorf("algorithm: %q, must be window, counter, log, bucket, gcra or leaky", name)
}

// longestQueue is how long a leaky bucket may hold up a request. The demo's
// clients wait no longer than five seconds.
const longestQueue = 4 * time.Second

// limit is the limit that the settings describe. Errors begin with the name of
// what is wrong.
func (s settings) limit() (redislimiter.Limit, error) {
	var none redislimiter.Limit
	a, err := algorithmOf(s.Algorithm)
	switch {
	case err != nil:
		return none, err
	case s.Rate < 1:
		return none, fmt.Errorf("rate: %d, must be at least 1", s.Rate)
	case s.Per <= 0:
		return none, fmt.Errorf("per: %v, must be above 0", s.Per)
	case a.hasBurst && s.Burst < 1:
		return none, fmt.Errorf("burst: %d, must be at least 1", s.Burst)
	}
	limit := a.make(s.Rate, time.Duration(s.Per), s.Burst)
	// The library knows the rest of what a limit has to be.
	if _, err := redislimiter.NewMemory(limiterName, limit); err != nil {
		return none, fmt.Errorf("rate, per, burst: %w", err)
	}
	if wait := float64(s.Burst) * time.Duration(s.Per).Seconds() / float64(s.Rate); a.name == "leaky" && wait > longestQueue.Seconds() {
		return none, fmt.Errorf("burst: a queue of %d at %d per %v takes %.3gs, at most %v are possible here", s.Burst, s.Rate, s.Per, wait, longestQueue)
	}
	return limit, nil
}

// check returns the first thing that is wrong.
func (s settings) check() error {
	limit, err := s.limit()
	if err != nil {
		return err
	}
	_, err = policyOf(s.OnFailure, limit, s.Instances)
	return err
}

// sameLimit reports whether going from one to the other leaves the limit as it is.
func (s settings) sameLimit(other settings) bool {
	return s.Algorithm == other.Algorithm && s.Rate == other.Rate && s.Per == other.Per && s.Burst == other.Burst
}
