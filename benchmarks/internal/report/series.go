// Package report turns measurements into ratios, tables and pictures.
package report

import (
	"math"
	"slices"
)

// A Series is one figure, once for each round.
type Series []float64

// Median is the middle one; NaN if there is none.
func (s Series) Median() float64 {
	s = slices.DeleteFunc(slices.Clone(s), math.IsNaN)
	if len(s) == 0 {
		return math.NaN()
	}
	slices.Sort(s)
	if n := len(s); n%2 == 0 {
		return (s[n/2-1] + s[n/2]) / 2
	}
	return s[len(s)/2]
}

// Over divides by the figure of another contender, round by round: what
// disturbed the machine for a while disturbed both, and cancels.
func (s Series) Over(base Series) Series {
	ratios := make(Series, min(len(s), len(base)))
	for i := range ratios {
		ratios[i] = s[i] / base[i]
	}
	return ratios
}
