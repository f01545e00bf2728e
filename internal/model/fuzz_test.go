package model

import (
	"fmt"
	"testing"
	"time"
)

// ruleOf makes a rule of arbitrary numbers: rates from one a month, or year, to a
// million a second, periods from a millisecond to a year. It reports false where
// the parameters are refused.
func ruleOf(kind byte, rate, per, burst uint64) (Rule, bool) {
	period := time.Duration(1000+per%(365*24*3600*1_000_000)) * time.Microsecond
	n := int(1 + rate%1_000_000)
	size := int(1 + burst%100_000)
	var r Rule
	switch kind % 6 {
	case 0:
		r = FixedWindow{Rate: n, Per: period}
	case 1:
		r = SlidingWindowLog{Rate: 1 + n%200, Per: period}
	case 2:
		r = NewSlidingWindowCounter(n, period)
	case 3:
		r = NewTokenBucket(n, period, size)
	case 4:
		r = GCRA{NewTokenBucket(n, period, size)}
	case 5:
		r = LeakyBucket{NewTokenBucket(n, period, size)}
	}
	return r, r.Validate() == nil
}

// A walk takes steps out of arbitrary bytes: what to ask for, and when.
type walk struct {
	data  []byte
	now   int64
	retry int64
	reset int64
}

func (w *walk) byte() int64 {
	if len(w.data) == 0 {
		return 0
	}
	b := w.data[0]
	w.data = w.data[1:]
	return int64(b)
}

// cost is small, all, or something in between.
func (w *walk) cost(capacity int64) int64 {
	switch b := w.byte(); {
	case b < 96:
		return min(1+b%3, capacity)
	case b < 128:
		return capacity
	default:
		return 1 + (b*b*b*7919)%capacity
	}
}

// move moves the clock: mostly forward, to the promised instants and around
// them, sometimes back.
func (w *walk) move(per int64) {
	switch b := w.byte(); b % 8 {
	case 0, 1: // at the same instant
	case 2:
		w.now += w.retry
	case 3:
		w.now += max(w.retry-1, 0)
	case 4:
		w.now += per * b / 256
	case 5:
		w.now += w.reset
	case 6:
		w.now += 1 + b
	case 7:
		if b > 200 {
			w.now = max(w.now-per*w.byte()/64, 1)
		}
	}
}

func seeds(f *testing.F) {
	f.Helper()
	for kind := range byte(6) {
		f.Add(kind, uint64(9), uint64(1_000_000), uint64(9), []byte("\x00\x00\x60\x02\x00\x03\x60\x02\x05\x04\x60\x03\xff\x07\x10"))
		f.Add(kind, uint64(0), uint64(30*24*3600*1_000_000), uint64(0), []byte("\x00\x02\x00\x03\x00\x02\x61\xf7\x20\x00"))
		f.Add(kind, uint64(999_999), uint64(0), uint64(99_999), []byte("\x61\x02\x61\x03\x61\x02\x61\x04"))
	}
}

// What is refused is refused until exactly the promised instant, and admitted at
// it; a refusal and a look change nothing; nothing is ever negative.
func FuzzPromises(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, kind byte, rate, per, burst uint64, data []byte) {
		rule, ok := ruleOf(kind, rate, per, burst)
		if !ok {
			return
		}
		rules, states := []Rule{rule}, make([]State, 1)
		w := &walk{data: data, now: 1_800_000_000_000_000}
		for len(w.data) > 0 {
			w.move(int64(1000 + per%1_000_000_000_000))
			c := Charge{Cost: w.cost(rule.Capacity()), Count: 1}
			before := fmt.Sprintf("%+v %v", states[0], logOf(states[0]))
			look := Take(rules, states, w.now, Charge{Count: 1})
			refusable := copyOf(states)
			taken := Take(rules, states, w.now, c)
			d := taken.Request(rules, 0)
			w.retry, w.reset = d.Retry, d.Reset
			if d.Remaining < 0 || d.Retry < 0 || d.Reset < 0 || d.Allowed == (d.Retry > 0) {
				t.Fatalf("%+v: inconsistent %+v", rule, d)
			}
			if left := look.Request(rules, 0).Remaining; d.Allowed != (left >= c.Cost) || d.Allowed && d.Remaining != left-c.Cost {
				t.Fatalf("%+v: a look says %d are left, a request for %d is answered %+v", rule, left, c.Cost, d)
			}
			if d.Allowed {
				continue
			}
			if after := fmt.Sprintf("%+v %v", states[0], logOf(states[0])); after != before {
				t.Fatalf("%+v: a refusal changed\n%s to\n%s", rule, before, after)
			}
			early := Take(rules, copyOf(refusable), w.now+d.Retry-1, c)
			intime := Take(rules, copyOf(refusable), w.now+d.Retry, c)
			if early.Granted != 0 || intime.Granted != 1 {
				t.Fatalf("%+v at %d: refused for %dµs; granted %d one µs before, %d then", rule, w.now, d.Retry, early.Granted, intime.Granted)
			}
		}
	})
}

func logOf(s State) []int64 {
	if s.Log == nil {
		return nil
	}
	return s.Log.times
}

func copyOf(states []State) []State {
	all := append([]State(nil), states...)
	for i, s := range all {
		if s.Log != nil {
			all[i].Log = &Log{times: append([]int64(nil), s.Log.times...)}
		}
	}
	return all
}

// An admission is remembered to check what was admitted within any span.
type admission struct{ at, units int64 }

// Never more than the limit within any span, as each constructor promises, while
// the clock only moves forward.
func FuzzNeverAboveTheLimit(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, kind byte, rate, per, burst uint64, data []byte) {
		rule, ok := ruleOf(kind, rate, per, burst)
		if !ok {
			return
		}
		rules, states := []Rule{rule}, make([]State, 1)
		w := &walk{data: data, now: 1_800_000_000_000_000}
		var admitted []admission
		for last := w.now; len(w.data) > 0; last = w.now {
			w.move(int64(1000 + per%1_000_000_000_000))
			w.now = max(w.now, last)
			taken := Take(rules, states, w.now, Charge{Cost: w.cost(rule.Capacity()), Count: 1 + w.byte()%4})
			d := taken.Request(rules, taken.Count-1)
			w.retry, w.reset = d.Retry, d.Reset
			if taken.Granted > 0 {
				admitted = append(admitted, admission{w.now, taken.Granted * taken.Cost})
			}
		}
		for i := range admitted {
			units := int64(0)
			for _, a := range admitted[i:] {
				units += a.units
				if most := mostWithin(rule, a.at-admitted[i].at); units > most {
					t.Fatalf("%+v: %d units within %dµs, at most %d promised", rule, units, a.at-admitted[i].at, most)
				}
			}
		}
	})
}

// mostWithin is what a rule promises for a span that includes both its ends.
func mostWithin(rule Rule, span int64) int64 {
	switch r := rule.(type) {
	case FixedWindow:
		return int64(r.Rate) * (span/r.Per.Microseconds() + 2)
	case SlidingWindowLog:
		return int64(r.Rate) * (span/r.Per.Microseconds() + 1)
	case SlidingWindowCounter:
		return int64(r.Rate) * (span/r.Per.Microseconds() + 2)
	case TokenBucket:
		return r.most(span)
	case GCRA:
		return r.most(span)
	case LeakyBucket:
		return r.most(span)
	}
	return 0
}

func (b TokenBucket) most(span int64) int64 {
	if span >= b.full*1000 { // the product below would overflow
		return Unlimited
	}
	return (b.size + span*b.step) / b.unit
}

// ahead reports whether a state is of a later time than the clock's. One that is too
// far ahead is not believed, and is again when the clock comes near it: beside
// another rule that refuses meanwhile, the promised instant can then be too early.
func ahead(states []State, now int64) bool {
	for _, s := range states {
		if log := logOf(s); s.Stamp > now || len(log) > 0 && log[len(log)-1] > now {
			return true
		}
	}
	return false
}

// Several rules decide as the strictest of them would on the same charges, and
// what they refuse together is refused until exactly the promised instant.
func FuzzRulesTogether(f *testing.F) {
	f.Add(byte(0), byte(3), uint64(9), uint64(1_000_000), []byte("\x00\x00\x60\x02\x00\x03\x60\x02\x05\x04\x60\x03"))
	f.Add(byte(1), byte(2), uint64(5), uint64(1_000), []byte("\x00\x00\x60\x02\x00\x03\x60\x02\x05\x04\x60\x03"))
	f.Fuzz(func(t *testing.T, kindA, kindB byte, rate, per uint64, data []byte) {
		a, okA := ruleOf(kindA, rate, per, rate)
		b, okB := ruleOf(kindB, rate/2, per*3, rate/3)
		if !okA || !okB {
			return
		}
		rules, both := []Rule{a, b}, make([]State, 2)
		w := &walk{data: data, now: 1_800_000_000_000_000}
		for len(w.data) > 0 {
			w.move(int64(1000 + per%1_000_000_000_000))
			c := Charge{Cost: w.cost(min(a.Capacity(), b.Capacity())), Count: 1}
			alone := copyOf(both)
			takenA := Take(rules[:1], alone[:1], w.now, c)
			takenB := Take(rules[1:], alone[1:], w.now, c)
			before := copyOf(both)
			taken := Take(rules, both, w.now, c)
			d, dA, dB := taken.Request(rules, 0), takenA.Request(rules[:1], 0), takenB.Request(rules[1:], 0)
			w.retry, w.reset = d.Retry, d.Reset
			if !d.Allowed && !ahead(both, w.now) {
				early, intime := Take(rules, copyOf(both), w.now+d.Retry-1, c), Take(rules, copyOf(both), w.now+d.Retry, c)
				if early.Granted != 0 || intime.Granted != 1 {
					t.Fatalf("%+v and %+v at %d: refused for %dµs; granted %d one µs before, %d then", a, b, w.now, d.Retry, early.Granted, intime.Granted)
				}
			}
			if d.Allowed != (dA.Allowed && dB.Allowed) || d.Retry != max(dA.Retry, dB.Retry) {
				t.Fatalf("%+v and %+v: together %+v, alone %+v and %+v", a, b, d, dA, dB)
			}
			if !d.Allowed && fmt.Sprintf("%+v", before) != fmt.Sprintf("%+v", both) && logOf(both[0]) == nil && logOf(both[1]) == nil {
				t.Fatalf("%+v and %+v: a refusal changed %+v to %+v", a, b, before, both)
			}
		}
	})
}
