package load

import (
	"context"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func TestHistogramIsNearTheTruth(t *testing.T) {
	var h Histogram
	var all []time.Duration
	random := rand.New(rand.NewPCG(1, 2))
	for range 20_000 {
		d := time.Duration(random.ExpFloat64() * float64(50*time.Microsecond))
		h.Add(d)
		all = append(all, d)
	}
	slices.Sort(all)
	for _, q := range []float64{0.01, 0.5, 0.9, 0.99} {
		want := all[int(q*float64(len(all)))]
		if got := h.Quantile(q); float64(got-want) > 0.04*float64(want)+2 || float64(want-got) > 0.04*float64(want)+2 {
			t.Errorf("quantile %v: %v, want %v", q, got, want)
		}
	}
}

func TestClosedCountsWhatItAsked(t *testing.T) {
	asked := 0
	o := Closed(context.Background(), func(context.Context, string) (bool, error) {
		asked++
		return asked%4 != 0, nil
	}, Plan{Callers: 1, For: 5 * time.Millisecond, Keys: One, Every: 16})
	if int(o.Decisions) != asked || int(o.Refused) != asked/4 || o.Errors != 0 {
		t.Errorf("%d asked, outcome %d decisions, %d refused", asked, o.Decisions, o.Refused)
	}
}

func TestOpenArrivesAtItsRate(t *testing.T) {
	o, kept := Open(context.Background(), func(context.Context, string) (bool, error) { return true, nil }, One, 2000, 100*time.Millisecond)
	if !kept || o.Decisions != 200 || o.Elapsed < 90*time.Millisecond {
		t.Errorf("kept up %v, %d decisions in %v", kept, o.Decisions, o.Elapsed)
	}
}

func TestMostlySpentAsksForEachFreshKeyOnce(t *testing.T) {
	const callers = 4
	seen := map[string]int{}
	for caller := range callers {
		next := MostlySpent(caller, callers)
		for range 1000 {
			seen[next()]++
		}
	}
	fresh := 0
	for key, n := range seen {
		if key >= Key(Spent) {
			fresh++
			if n > 1 {
				t.Errorf("%s came %d times", key, n)
			}
		}
	}
	if fresh != callers*100 {
		t.Errorf("%d fresh keys of %d calls", fresh, callers*1000)
	}
}
