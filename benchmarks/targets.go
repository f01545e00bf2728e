package main

import (
	"fmt"
	"math"
	"runtime"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/peers"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/report"
)

// A target is a figure that the library is meant to reach.
type target struct {
	name     string
	least    bool // or at most
	bound    float64
	times    bool // a ratio
	measured float64
}

func (t target) reached() string {
	switch {
	case math.IsNaN(t.measured):
		return "not measured"
	case t.least && t.measured >= t.bound || !t.least && t.measured <= t.bound:
		return "reached"
	}
	return "not reached"
}

func (t target) row() []string {
	format, sign := report.Number, "≤ "
	if t.times {
		format = report.Times
	}
	if t.least {
		sign = "≥ "
	}
	return []string{t.name, sign + format(t.bound), format(t.measured), t.reached()}
}

// targets holds the run to what was promised.
func (b *bench) targets() {
	table := report.New("Targets", "figure", "target", "measured", "")
	var all []target
	all = append(all, b.throughputTargets()...)
	all = append(all, b.scriptTargets()...)
	all = append(all, b.sizeTargets()...)
	for _, t := range all {
		table.Row(t.row()...)
	}
	table.Note("Medians of one run, which vary with the machine and its other work.")
	b.print(table)
}

func (b *bench) throughputTargets() []target {
	crowd := func(traffic string, callers int, name string, get figure) float64 {
		return b.results[cell{traffic, callers}].ratio(name, peers.RedisRate, get)
	}
	single := func(traffic string, callers int, name string, get figure) float64 {
		return b.results[cell{traffic, callers}].median(name, get)
	}
	return []target{
		{"one hot key, 256 callers, decisions/s against redis_rate", true, 15, true, crowd(hotKey, 256, peers.Bucket, perSecond)},
		{"… its p99", false, 0.25, true, crowd(hotKey, 256, peers.Bucket, p99)},
		{"one hot key, 1,000 callers", true, 20, true, crowd(hotKey, 1000, peers.Bucket, perSecond)},
		{"10,000 keys, 256 callers", true, 3, true, crowd(tenK, 256, peers.Bucket, perSecond)},
		{"one caller", true, 1.2, true, crowd(hotKey, 1, peers.Bucket, perSecond)},
		{"… its p50", false, 1, true, crowd(hotKey, 1, peers.Bucket, p50)},
		{"refused key with CacheDenials, 64 callers", true, 200, true, crowd(refusedKey, 64, peers.Cached, perSecond)},
		{"… allocations", false, 0, false, floor(single(refusedKey, 64, peers.Cached, allocs))},
		{"… Redis commands", false, 0, false, floor(single(refusedKey, 64, peers.Cached, sent))},
		{"leased hot key, 64 callers", true, 100, true, crowd(hotKey, 64, peers.Leased, perSecond)},
		{"allocations of a lone call", false, 6, false, tenth(single(hotKey, 1, peers.Bucket, allocs))},
		{"allocations, one hot key, 256 callers", false, 2, false, single(hotKey, 256, peers.Bucket, allocs)},
	}
}

// floor takes what the measuring itself allocates, and a few calls that began
// before the refusal was known, for nothing: far less than one in a hundred.
func floor(x float64) float64 {
	if x < 0.01 {
		return 0
	}
	return x
}

// tenth rounds, since the measuring itself allocates a little.
func tenth(x float64) float64 { return math.Round(10*x) / 10 }

func (b *bench) scriptTargets() []target {
	var all []target
	for _, x := range []struct {
		name  string
		bound float64
	}{{peers.Bucket, 1}, {peers.GCRA, 0.85}, {peers.Counter, 1.1}, {peers.Hits, 1.3}} {
		all = append(all, target{"server time a decision, " + x.name + ", against redis_rate", false, x.bound, true,
			b.scripts.ratio(x.name, peers.RedisRate, script)})
	}
	all = append(all, target{"… three rules of constant size, against one (" + peers.Bucket + ")", false, 1.3, true,
		b.scripts.ratio(peers.Three, peers.Bucket, script)})
	shared := b.scripts.ratio(peers.Bucket+manySuffix, peers.RedisRate, script) / keysInTrip
	return append(all, target{fmt.Sprintf("… %s in a trip of %d keys", peers.Bucket, keysInTrip), false, 0.6, true, shared})
}

func (b *bench) sizeTargets() []target {
	bytes := func(name string) float64 {
		if n, ok := b.scalars["bytes "+name]; ok {
			return n
		}
		return notMeasured
	}
	memory := b.results[cell{"100,000 keys" + inMemory, runtime.GOMAXPROCS(0)}]
	return []target{
		{"allocations of Memory", false, 0, false, floor(memory.median(peers.Memory, allocs))},
		{"bytes in Redis, token bucket, a key", false, 104, false, bytes(peers.Bucket)},
		{"bytes in Redis, log of 128, a hit", false, 24, false, bytes("a hit, 128")},
		{"Memory, 100,000 keys, all processors, time a call against x/time/rate in a sync.Map", false, 1, true,
			1 / memory.ratio(peers.Memory, peers.RateInMap, perSecond)},
	}
}
