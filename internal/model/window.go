package model

import "time"

// FixedWindow counts the units of a window that begins with the first of them
// and forgets all of them when it ends.
//
//	State: Used in the window that began at Stamp. View: the same, and At = now
//	if no window is open.
type FixedWindow struct {
	Rate int
	Per  time.Duration
}

// Validate implements Rule.
func (f FixedWindow) Validate() error {
	if err := positive("rate", f.Rate); err != nil {
		return err
	}
	if err := atMost("rate", f.Rate, maxExact); err != nil {
		return err
	}
	return period("per", f.Per)
}

// Capacity implements Rule.
func (f FixedWindow) Capacity() int64 { return int64(f.Rate) }

// See implements Rule. A window that begins further ahead than it is long was
// left by a broken clock.
func (f FixedWindow) See(s *State, now int64) View {
	per := f.Per.Microseconds()
	if s.Used == 0 || s.Stamp > now+per || now >= s.Stamp+per {
		return View{At: now}
	}
	return View{At: s.Stamp, Used: s.Used}
}

// Room implements Rule.
func (f FixedWindow) Room(v View, now, cost int64) int64 { return f.Remaining(v, now) / cost }

// After implements Rule.
func (f FixedWindow) After(v View, _, n int64) View {
	v.Used += n
	return v
}

// Store implements Rule.
func (f FixedWindow) Store(s *State, v View, _, _ int64) { s.Stamp, s.Used = v.At, v.Used }

// Remaining implements Rule.
func (f FixedWindow) Remaining(v View, _ int64) int64 { return max(int64(f.Rate)-v.Used, 0) }

// Refund implements Rule. What was charged in an earlier window has been given
// back by its end.
func (f FixedWindow) Refund(s *State, now, charged, n int64) {
	v := f.See(s, now)
	if charged >= v.At {
		v.Used = max(v.Used-n, 0)
	}
	f.Store(s, v, now, 0)
}

// Retry implements Rule.
func (f FixedWindow) Retry(v View, now, cost int64) int64 {
	if v.Used+cost <= int64(f.Rate) {
		return 0
	}
	return v.At + f.Per.Microseconds() - now
}

// Reset implements Rule.
func (f FixedWindow) Reset(v View, now int64) int64 {
	if v.Used == 0 {
		return 0
	}
	return v.At + f.Per.Microseconds() - now
}
