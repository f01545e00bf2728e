package model

import (
	"math"
	"time"
)

// maxCounterRate leaves at least a thousand steps of weight in a window.
const maxCounterRate = 1 << 42

// SlidingWindowCounter keeps two counters, of the current and of the previous
// window, and takes the previous one to be spread evenly: what counts is
//
//	current + previous × the share of it that the sliding window still covers
//
// Windows are aligned to the epoch. The share is a whole number of steps out
// of Steps; a step is a microsecond unless the products would overflow then.
//
//	State: Used and Prev, of the window that begins at Stamp and of the one
//	before. View: the same for the window that begins at At.
type SlidingWindowCounter struct {
	Rate int
	Per  time.Duration

	window, quantum, steps int64
}

// NewSlidingWindowCounter makes a counter. Arguments that Validate refuses are
// fine here.
func NewSlidingWindowCounter(rate int, per time.Duration) SlidingWindowCounter {
	c := SlidingWindowCounter{Rate: rate, Per: per}
	if rate < 1 || rate > maxCounterRate || per < time.Microsecond || per.Microseconds() > MaxPeriod {
		return c
	}
	c.window = per.Microseconds()
	c.quantum = int64(math.Ceil(float64(rate) * float64(c.window) / maxExact)) // as the script computes it
	c.steps = ceilDiv(c.window, c.quantum)
	return c
}

// Validate implements Rule.
func (c SlidingWindowCounter) Validate() error {
	if err := positive("rate", c.Rate); err != nil {
		return err
	}
	if err := atMost("rate", c.Rate, maxCounterRate); err != nil {
		return err
	}
	return period("per", c.Per)
}

// Capacity implements Rule.
func (c SlidingWindowCounter) Capacity() int64 { return int64(c.Rate) }

// See implements Rule. Should the clock stand before the stored window, time
// stands still at its beginning until the clock has caught up.
func (c SlidingWindowCounter) See(s *State, now int64) View {
	stored := s.Stamp - s.Stamp%c.window // a changed period has other windows
	at := max(now, stored)
	at -= at % c.window
	switch {
	case s.Used == 0 && s.Prev == 0, stored > now+2*c.window: // nothing, or left by a broken clock
		return View{At: now - now%c.window}
	case at == stored:
		return View{At: at, Used: s.Used, Prev: s.Prev}
	case at == stored+c.window:
		return View{At: at, Prev: s.Used}
	}
	return View{At: at}
}

// share is how many steps of the previous window still count.
func (c SlidingWindowCounter) share(v View, now int64) int64 {
	return c.steps - max(now-v.At, 0)/c.quantum
}

// Room implements Rule.
func (c SlidingWindowCounter) Room(v View, now, cost int64) int64 { return c.Remaining(v, now) / cost }

// After implements Rule.
func (c SlidingWindowCounter) After(v View, _, n int64) View {
	v.Used += n
	return v
}

// Store implements Rule.
func (c SlidingWindowCounter) Store(s *State, v View, _, _ int64) {
	s.Stamp, s.Used, s.Prev = v.At, v.Used, v.Prev
}

// Remaining implements Rule.
func (c SlidingWindowCounter) Remaining(v View, now int64) int64 {
	free := int64(c.Rate)*c.steps - min(v.Prev, int64(c.Rate))*c.share(v, now)
	return max(free/c.steps-v.Used, 0)
}

// Refund implements Rule. What was charged in a window counts in that window.
func (c SlidingWindowCounter) Refund(s *State, now, charged, n int64) {
	v := c.See(s, now)
	switch {
	case charged >= v.At:
		v.Used = max(v.Used-n, 0)
	case charged >= v.At-c.window:
		v.Prev = max(v.Prev-n, 0)
	}
	c.Store(s, v, now, 0)
}

// Retry implements Rule. It solves the weighted sum for the time.
func (c SlidingWindowCounter) Retry(v View, now, cost int64) int64 {
	if c.Remaining(v, now) >= cost {
		return 0
	}
	if free := int64(c.Rate) - v.Used - cost; free >= 0 {
		return v.At + c.fits(min(v.Prev, int64(c.Rate)), free) - now
	}
	// The current window has too much itself: it has to become the previous.
	used := min(v.Used, int64(c.Rate))
	return v.At + c.window + c.fits(used, int64(c.Rate)-cost) - now
}

// fits is how far into a window what is left of the previous one no longer
// exceeds free.
func (c SlidingWindowCounter) fits(prev, free int64) int64 {
	if prev <= free {
		return 0
	}
	return min((c.steps-free*c.steps/prev)*c.quantum, c.window)
}

// Reset implements Rule.
func (c SlidingWindowCounter) Reset(v View, now int64) int64 {
	switch {
	case v.Used > 0:
		return v.At + 2*c.window - now
	case v.Prev > 0:
		return v.At + c.window - now
	}
	return 0
}
