package main

import (
	"time"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/peers"
)

// settings are how much is measured.
type settings struct {
	rounds   int
	lasting  time.Duration // of a turn
	warming  time.Duration // before the first; a quarter of it before each
	sections []string      // none: all

	crowds     []int // callers at a time
	million    bool  // keys too, in memory: they take a while to come about
	keysHeld   int   // to count bytes by
	logLimits  []int
	population []int // keys in the server while a decision is measured
	primaries  int   // of the largest cluster
	loads      []float64

	batches int // rounds where a turn is short
	pool    int // connections of each limiter

	quiet                   bool // no progress on standard error
	redis, update, pictures string
}

// full is what the documented figures are measured with.
func full() *settings {
	return &settings{
		rounds: 21, lasting: 60 * time.Millisecond, warming: 60 * time.Millisecond,
		batches: 100, million: true,
		crowds: []int{1, 16, 64, 256, 1000}, keysHeld: 20_000,
		logLimits:  []int{10, 100, 1_000, 10_000, 100_000},
		population: []int{1_000, 10_000, 100_000, 1_000_000},
		primaries:  3,
		pool:       peers.PoolSize,
		loads:      []float64{0.1, 0.25, 0.5, 0.75, 0.9, 1.1, 1.5, 2, 3, 4, 6},
	}
}

// taste runs all code once, for tests.
func taste() *settings {
	return &settings{
		rounds: 1, lasting: 40 * time.Millisecond, warming: 20 * time.Millisecond,
		batches: 5,
		crowds:  []int{1, 64}, keysHeld: 1_000,
		logLimits: []int{10, 1_000}, population: []int{1_000, 10_000}, primaries: 2, loads: []float64{0.25, 0.5},
		pool: peers.PoolSize,
	}
}
