package scripts_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/model"
	"github.com/redislimiter/go-redislimiter/scripts"
)

// change makes the limiter again with other rules.
func (p *pair) change(tb testing.TB, rules []model.Rule) {
	tb.Helper()
	script, err := scripts.New(rules)
	if err != nil {
		tb.Fatal(err)
	}
	p.script, p.rules, p.stale = script, rules, true
}

// periodRules are rules with a period, as long as is said.
func periodRules(kind int, per time.Duration) []model.Rule {
	switch kind {
	case 0:
		return []model.Rule{model.FixedWindow{Rate: 5, Per: per}}
	case 1:
		return []model.Rule{model.NewSlidingWindowCounter(5, per)}
	default:
		return []model.Rule{model.FixedWindow{Rate: 5, Per: time.Second}, model.BlockAfter{Refusals: 3, Within: per, Block: 2 * per},
			model.FixedWindow{Rate: 1000, Per: per}}
	}
}

// When the period of a limit is changed, to and fro, nothing that still matters is
// forgotten before its time once something was charged, and all is decided as the
// model says. (A log drops what has left the window in force, the script later than the
// model, and what is left counts under a longer one.)
func TestChangedPeriods(t *testing.T) {
	periods := []time.Duration{time.Second, 1100 * time.Millisecond, time.Minute, time.Hour, 24 * time.Hour}
	for seed := range uint64(400) {
		random := rand.New(rand.NewPCG(seed, 3))
		kind := int(seed % 3)
		p := newPair(t, periodRules(kind, periods[random.IntN(len(periods))]))
		for range 60 {
			if random.IntN(6) == 0 {
				p.change(t, periodRules(kind, periods[random.IntN(len(periods))]))
			}
			p.now += random.Int64N(1_500_000)
			if random.IntN(10) == 0 {
				p.now += random.Int64N(4_000_000_000)
			}
			if random.IntN(8) == 0 {
				p.refund(t, 1, p.now)
			}
			p.charge(t, model.Charge{Cost: random.Int64N(3), Count: 1})
		}
	}
}
