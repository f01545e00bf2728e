package model

import "time"

// BlockAfter is a penalty beside other rules: after Refusals refusals by them
// Within a window, which begins with the first of these, everything is refused
// for the time of Block. Refusals during a block neither count nor extend it.
//
//	State: Used refusals since Stamp; Prev, until when everything is blocked.
//	View: the same with what is over left out, and At = now if nothing counts.
type BlockAfter struct {
	Refusals int
	Within   time.Duration
	Block    time.Duration
}

// Validate implements Rule.
func (b BlockAfter) Validate() error {
	if err := positive("refusals", b.Refusals); err != nil {
		return err
	}
	if err := atMost("refusals", b.Refusals, maxExact); err != nil {
		return err
	}
	if err := period("within", b.Within); err != nil {
		return err
	}
	return period("block", b.Block)
}

// Capacity implements Rule: the other rules decide.
func (b BlockAfter) Capacity() int64 { return Unlimited }

// See implements Rule. Instants further ahead than the rule's own spans were
// left by a broken clock.
func (b BlockAfter) See(s *State, now int64) View {
	v := View{At: now}
	if s.Prev > now && s.Prev <= now+b.Block.Microseconds() {
		v.Prev = s.Prev
	}
	within := b.Within.Microseconds()
	if s.Used > 0 && s.Stamp <= now+within && now < s.Stamp+within {
		v.At, v.Used = s.Stamp, s.Used
	}
	return v
}

// Refuse is the view once the other rules have refused n more requests.
func (b BlockAfter) Refuse(v View, now, n int64) View {
	if v.Prev > 0 || n == 0 {
		return v
	}
	v.Used += n
	if v.Used >= int64(b.Refusals) {
		return View{At: now, Prev: now + b.Block.Microseconds()}
	}
	return v
}

// Room implements Rule.
func (b BlockAfter) Room(v View, now, _ int64) int64 { return b.Remaining(v, now) }

// After implements Rule: what is admitted changes nothing.
func (b BlockAfter) After(v View, _, _ int64) View { return v }

// Store implements Rule.
func (b BlockAfter) Store(s *State, v View, _, _ int64) {
	s.Stamp, s.Used, s.Prev = v.At, v.Used, v.Prev
}

// Remaining implements Rule.
func (b BlockAfter) Remaining(v View, _ int64) int64 {
	if v.Prev > 0 {
		return 0
	}
	return Unlimited
}

// Refund implements Rule: a refusal stays one.
func (b BlockAfter) Refund(s *State, now, _, _ int64) { b.Store(s, b.See(s, now), now, 0) }

// Retry implements Rule.
func (b BlockAfter) Retry(v View, now, _ int64) int64 {
	if v.Prev > 0 {
		return v.Prev - now
	}
	return 0
}

// Reset implements Rule.
func (b BlockAfter) Reset(v View, now int64) int64 {
	switch {
	case v.Prev > 0:
		return v.Prev - now
	case v.Used > 0:
		return v.At + b.Within.Microseconds() - now
	}
	return 0
}
