package model

import (
	"fmt"
	"sort"
	"time"
)

// MaxLogRate bounds the log, which stores every unit it admits.
const MaxLogRate = 1_000_000

// SlidingWindowLog is the sliding window log: at most Rate units in any span
// of Per, exactly, by remembering when each unit of the last Per was admitted.
// A unit admitted at t counts until just before t+Per.
//
//	State: Log. View: Used = units that count, At = the newest of them, or now
//	if there is none; Prev = the unit whose end lets the next request in.
type SlidingWindowLog struct {
	Rate int
	Per  time.Duration
}

// A Log is the instants of admitted units, oldest first.
type Log struct {
	times []int64
}

func (l SlidingWindowLog) window() int64 { return l.Per.Microseconds() }

// Validate implements Rule.
func (l SlidingWindowLog) Validate() error {
	if err := positive("rate", l.Rate); err != nil {
		return err
	}
	if l.Rate > MaxLogRate {
		return fmt.Errorf("rate is %d, must be at most %d for a log, which stores every unit", l.Rate, MaxLogRate)
	}
	return period("per", l.Per)
}

// Capacity implements Rule.
func (l SlidingWindowLog) Capacity() int64 { return int64(l.Rate) }

// See counts the units that are younger than the window.
func (l SlidingWindowLog) See(s *State, now int64) View {
	times := l.counting(s, now)
	if len(times) == 0 {
		return View{At: now}
	}
	return View{At: times[len(times)-1], Used: int64(len(times))}
}

// counting returns the units that still count. Should the clock stand before
// the newest unit, time stands still until it has caught up.
func (l SlidingWindowLog) counting(s *State, now int64) []int64 {
	if s.Log == nil || len(s.Log.times) == 0 {
		return nil
	}
	times := s.Log.times
	newest := times[len(times)-1]
	// Units further ahead than a window were left by a broken clock.
	if newest > now+l.window() {
		return nil
	}
	end := max(now, newest) - l.window()
	return times[sort.Search(len(times), func(i int) bool { return times[i] > end }):]
}

// Blocker completes a view for requests of cost units that are refused after
// granted units were admitted: Prev becomes the instant of the unit that has
// to leave the window first, or 0 if nothing has to.
func (l SlidingWindowLog) Blocker(s *State, v View, now, granted, cost int64) View {
	over := v.Used + granted + cost - int64(l.Rate) // so many units have to leave
	switch {
	case over < 1:
		v.Prev = 0
	case over > v.Used:
		v.Prev = max(v.At, now) // one of those just admitted
	default:
		v.Prev = l.counting(s, now)[over-1]
	}
	return v
}

// Room implements Rule.
func (l SlidingWindowLog) Room(v View, now, cost int64) int64 { return l.Remaining(v, now) / cost }

// After implements Rule.
func (l SlidingWindowLog) After(v View, now, n int64) View {
	v.Used += n
	v.At = max(v.At, now)
	return v
}

// Store implements Rule. The units that no longer count are cut off at the
// front; append leaves them behind whenever it has to move the rest.
func (l SlidingWindowLog) Store(s *State, v View, now, n int64) {
	times := l.counting(s, now)
	for range n {
		times = append(times, v.At)
	}
	if s.Log == nil {
		s.Log = &Log{}
	}
	s.Log.times = times
}

// Remaining implements Rule.
func (l SlidingWindowLog) Remaining(v View, _ int64) int64 { return max(int64(l.Rate)-v.Used, 0) }

// Refund removes the newest units. Should others have been charged in between,
// it is theirs that go, and the older ones that stay leave the window earlier.
func (l SlidingWindowLog) Refund(s *State, now, _, n int64) {
	if times := l.counting(s, now); len(times) > 0 {
		s.Log.times = times[:len(times)-int(min(n, int64(len(times))))]
	}
}

// Retry implements Rule.
func (l SlidingWindowLog) Retry(v View, now, _ int64) int64 {
	if v.Prev == 0 {
		return 0
	}
	return v.Prev + l.window() - now
}

// Reset implements Rule.
func (l SlidingWindowLog) Reset(v View, now int64) int64 {
	if v.Used == 0 {
		return 0
	}
	return v.At + l.window() - now
}
