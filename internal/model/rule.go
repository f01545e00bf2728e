// Package model is the specification of the library: every algorithm as plain
// Go on integers, with time passed in.
//
// The Lua scripts are held to it by tests, Memory runs on it, and the results
// that callers see (Remaining, RetryAfter, ResetAfter) are computed by it for
// Redis and for Memory alike, so that the two cannot drift apart. All instants
// and durations are microseconds: the precision of Redis TIME, and small
// enough that every number a script handles stays below 2^53, where Lua's
// doubles are exact.
package model

import (
	"fmt"
	"math"
	"time"
)

// maxExact bounds every product of parameters. The sum of such a number and
// today's time in microseconds is still below 2^53.
const maxExact = 1 << 52

// MaxPeriod is the longest period of a limit, in microseconds: ten years.
const MaxPeriod = 10 * 365 * 24 * 3600 * 1_000_000

// A State is what is stored of one rule for one key. The zero State is a key
// that was never seen.
type State struct {
	Stamp int64 // the instant the rest is of; each rule says which
	Used  int64
	Prev  int64
	Log   *Log // only SlidingWindowLog
}

// A View is a State as it stands at the instant of a decision. The scripts
// reply with exactly these numbers.
type View struct {
	At   int64 // the instant it is of; each rule says which
	Used int64
	Prev int64
}

// Unlimited is what a rule has left that does not limit at the moment.
const Unlimited = math.MaxInt64

// A Rule is one limit with its algorithm. Rules are comparable values.
type Rule interface {
	// Validate names the first argument that the algorithm cannot work with.
	Validate() error
	// Capacity is the largest cost that can ever be admitted at once.
	Capacity() int64
	// See returns the state as it stands at now.
	See(s *State, now int64) View
	// Room says how many requests of cost units fit. The cost is at least 1.
	Room(v View, now, cost int64) int64
	// After is the view once n more units are charged. The scripts store
	// what After describes.
	After(v View, now, n int64) View
	// Store writes the view that After gave for n units back.
	Store(s *State, v View, now, n int64)
	// Remaining is how many units fit, never below 0.
	Remaining(v View, now int64) int64
	// Refund takes back up to n units that were charged at the instant
	// charged. It never leaves more than a fresh key would have.
	Refund(s *State, now, charged, n int64)
	// Retry is the wait until cost more units fit, 0 if they do.
	Retry(v View, now, cost int64) int64
	// Reset is the wait until the key is as if never seen.
	Reset(v View, now int64) int64
}

// ceilDiv rounds up; both are positive.
func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

func gcd(a, b int64) int64 {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// positive checks the arguments that every constructor takes.
func positive(what string, n int) error {
	if n < 1 {
		return fmt.Errorf("%s is %d, must be at least 1", what, n)
	}
	return nil
}

func atMost(what string, n, most int) error {
	if n > most {
		return fmt.Errorf("%s is %d, must be at most %d", what, n, most)
	}
	return nil
}

// period checks a duration against what integer microseconds can express.
func period(what string, d time.Duration) error {
	switch {
	case d < time.Microsecond:
		return fmt.Errorf("%s is %v, must be at least 1µs", what, d)
	case d%time.Microsecond != 0:
		return fmt.Errorf("%s is %v, must be a whole number of microseconds (the smallest is 1µs)", what, d)
	case d.Microseconds() > MaxPeriod:
		return fmt.Errorf("%s is %v, must be at most ten years (%v)", what, d, MaxPeriod*time.Microsecond)
	}
	return nil
}
