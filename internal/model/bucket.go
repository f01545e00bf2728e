package model

import (
	"fmt"
	"time"
)

// TokenBucket is the token bucket: Burst tokens at most, Rate of them back
// every Per.
//
// It is kept as what is missing from a full bucket, in units so small that
// both a token and a microsecond's refill are whole numbers of them: with Rate
// and Per reduced by their greatest common divisor, a token is Per units and
// a microsecond brings Rate units back. Nothing is ever rounded, so no fraction of
// a token is lost or won, however often a key is asked for.
//
//	State: Used at Stamp. View: Used at At, which is now, or Stamp if later.
type TokenBucket struct {
	Rate  int
	Per   time.Duration
	Burst int

	unit, step, size, full int64
}

// NewTokenBucket makes a bucket and works out its units. Arguments that
// Validate refuses are fine here.
func NewTokenBucket(rate int, per time.Duration, burst int) TokenBucket {
	b := TokenBucket{Rate: rate, Per: per, Burst: burst}
	if rate < 1 || per < time.Microsecond || burst < 1 {
		return b
	}
	common := gcd(per.Microseconds(), int64(rate))
	b.unit, b.step = per.Microseconds()/common, int64(rate)/common
	b.size = int64(burst) * b.unit
	b.full = ceilDiv(b.size, b.step)
	return b
}

// Unit is how many units make a token.
func (b TokenBucket) Unit() int64 { return b.unit }

// Step is how many units come back in a microsecond.
func (b TokenBucket) Step() int64 { return b.step }

// Size is the full bucket in units.
func (b TokenBucket) Size() int64 { return b.size }

// Validate implements Rule.
func (b TokenBucket) Validate() error {
	if err := positive("rate", b.Rate); err != nil {
		return err
	}
	if err := atMost("rate", b.Rate, maxExact); err != nil {
		return err
	}
	if err := period("per", b.Per); err != nil {
		return err
	}
	if err := positive("burst", b.Burst); err != nil {
		return err
	}
	if most := maxExact / b.unit; int64(b.Burst) > most {
		return fmt.Errorf("burst is %d, must be at most %d for %d per %v, or exact arithmetic would overflow", b.Burst, most, b.Rate, b.Per)
	}
	return nil
}

// Capacity implements Rule.
func (b TokenBucket) Capacity() int64 { return int64(b.Burst) }

// See refills what the time since Stamp brings back.
func (b TokenBucket) See(s *State, now int64) View {
	// A stamp further ahead than a whole refill was left by a broken clock:
	// believing it would lock the client out until that time.
	if s.Stamp > now+b.full {
		return View{At: now}
	}
	// A limit that was lowered leaves more missing than the bucket holds.
	used := min(s.Used, b.size)
	if used == 0 {
		return View{At: now}
	}
	// Time stands still until a clock that fell back has caught up.
	if s.Stamp >= now {
		return View{At: s.Stamp, Used: used}
	}
	if now-s.Stamp >= ceilDiv(used, b.step) {
		return View{At: now}
	}
	return View{At: now, Used: used - (now-s.Stamp)*b.step}
}

// Room implements Rule.
func (b TokenBucket) Room(v View, now, cost int64) int64 { return b.Remaining(v, now) / cost }

// After implements Rule.
func (b TokenBucket) After(v View, _, n int64) View {
	v.Used += n * b.unit
	return v
}

// Store implements Rule.
func (b TokenBucket) Store(s *State, v View, _, _ int64) { s.Stamp, s.Used = v.At, v.Used }

// Remaining implements Rule.
func (b TokenBucket) Remaining(v View, _ int64) int64 { return (b.size - v.Used) / b.unit }

// Refund implements Rule.
func (b TokenBucket) Refund(s *State, now, _, n int64) {
	v := b.See(s, now)
	v.Used = max(v.Used-min(n, b.Capacity())*b.unit, 0)
	b.Store(s, v, now, 0)
}

// Retry implements Rule.
func (b TokenBucket) Retry(v View, now, cost int64) int64 {
	short := v.Used + cost*b.unit - b.size
	if short <= 0 {
		return 0
	}
	return ceilDiv(short, b.step) + v.At - now
}

// Reset implements Rule.
func (b TokenBucket) Reset(v View, now int64) int64 {
	if v.Used == 0 {
		return 0
	}
	return ceilDiv(v.Used, b.step) + v.At - now
}

// GCRA is the generic cell rate algorithm. It decides as TokenBucket does, and
// the model is the same; in Redis it is stored as one instant, at which the
// bucket would be full again.
type GCRA struct{ TokenBucket }

// LeakyBucket is the leaky bucket as a queue: what is admitted waits for its
// turn, one unit every Per/Rate, and at most Burst units are in the queue,
// the one whose turn it is included. A queue that drains is a bucket that
// fills: it admits as TokenBucket does.
type LeakyBucket struct{ TokenBucket }

// Delay is how long a request has to wait for its turn, given the view before
// it was charged.
func (l LeakyBucket) Delay(v View, now int64) int64 { return l.Reset(v, now) }
