package limitertest

import (
	"math/rand/v2"
	"time"

	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// Periods from a millisecond to a year, some of them awkward.
var periods = []time.Duration{
	time.Millisecond, 7 * time.Millisecond, 100 * time.Millisecond, time.Second, 1900 * time.Millisecond,
	time.Minute, 61 * time.Second, time.Hour, 24 * time.Hour, 30 * 24 * time.Hour, 365 * 24 * time.Hour, 123457 * time.Microsecond,
}

// RandomLimits picks one to three limits of any algorithm.
func RandomLimits(random *rand.Rand) []rl.Limit {
	all := Algorithms()
	limits := make([]rl.Limit, 1+random.IntN(3)*random.IntN(2))
	for i := range limits {
		n := 1 + random.IntN(12)
		limits[i] = all[random.IntN(len(all))].Make(n, periods[random.IntN(len(periods))])
	}
	if random.IntN(4) == 0 {
		within, block := periods[random.IntN(len(periods))], periods[random.IntN(len(periods))]
		limits = append(limits, rl.BlockAfter(1+random.IntN(4), within, block))
	}
	return limits
}

// A History makes up the next request from what was answered before: many
// come at the promised instant or a microsecond beside it.
type History struct {
	random *rand.Rand
	limits []rl.Limit
	most   int
	last   rl.Result
}

// NewHistory begins a history for the limits.
func NewHistory(random *rand.Rand, limits []rl.Limit) *History {
	most := limits[0].Burst()
	for _, l := range limits {
		if l.Burst() > 0 { // BlockAfter has none
			most = min(most, l.Burst())
		}
	}
	return &History{random: random, limits: limits, most: most}
}

// Saw tells what the last request was answered.
func (h *History) Saw(r rl.Result) { h.last = r }

// Next is how long to wait, and what to ask for then.
func (h *History) Next() (pause time.Duration, n int) {
	n = h.random.IntN(h.most + 1)
	if h.random.IntN(2) == 0 {
		n = min(1, h.most)
	}
	per := h.limits[h.random.IntN(len(h.limits))].Per()
	switch h.random.IntN(8) {
	case 0, 1:
		pause = 0
	case 2:
		pause = h.last.RetryAfter
	case 3:
		pause = h.last.RetryAfter - time.Microsecond
	case 4:
		pause = h.last.ResetAfter - time.Duration(h.random.IntN(2))*time.Microsecond
	case 5:
		pause = time.Duration(h.random.Int64N(int64(per)/4 + 1))
	case 6:
		pause = time.Duration(h.random.Int64N(int64(per)*2 + 1))
	case 7:
		pause = time.Duration(h.random.IntN(5)) * time.Microsecond
	}
	return max(pause, 0).Truncate(time.Microsecond), n
}

// SameDecision compares all that two limiters of the same limits must agree in.
func SameDecision(a, b rl.Result) bool {
	return a.Allowed == b.Allowed && a.Limit == b.Limit && a.Remaining == b.Remaining &&
		a.RetryAfter == b.RetryAfter && a.ResetAfter == b.ResetAfter && a.Delay == b.Delay
}
