package main

import (
	"math"
	"path/filepath"
	"strconv"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/peers"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/report"
)

// plots are what the pictures show beyond the results.
type plots struct {
	arrivals curves
}

// curves are points by limiter.
type curves map[string][]report.Point

func (c curves) add(name string, x, y float64) {
	if !math.IsNaN(y) && c != nil {
		c[name] = append(c[name], report.Point{X: x, Y: y})
	}
}

// pictured are the limiters in pictures, in the order of the legend.
var pictured = []string{peers.Leased, peers.Bucket, peers.RedisRate, peers.Ulule, peers.Throttled}

// draw writes the pictures of what was measured.
func (b *bench) draw() error {
	for _, x := range []struct{ traffic, file string }{{hotKey, "throughput-hot-key.svg"}, {tenK, "throughput-10000-keys.svg"}} {
		if err := b.drawThroughput(x.traffic, x.file); err != nil {
			return err
		}
	}
	if len(b.plots.arrivals) == 0 {
		return nil
	}
	return report.Chart{
		Title:  "p99 by offered load, 10,000 keys",
		XLabel: "offered load, against what redis_rate can do", YLabel: "p99, against redis_rate's at the least load",
		Order: pictured, Lines: b.plots.arrivals,
	}.Save(filepath.Join(b.pictures, "p99-load.svg"))
}

// drawThroughput shows decisions a second by callers, in multiples of what
// redis_rate decides for one caller.
func (b *bench) drawThroughput(traffic, file string) error {
	lines := curves{}
	unit := b.results[cell{traffic, b.crowds[0]}].median(peers.RedisRate, perSecond)
	var ticks []report.Tick
	for _, n := range b.crowds {
		r := b.results[cell{traffic, n}]
		for _, name := range pictured {
			lines.add(name, float64(n), r.median(name, perSecond)/unit)
		}
		ticks = append(ticks, report.Tick{At: float64(n), Label: strconv.Itoa(n)})
	}
	if len(lines) == 0 {
		return nil // the section was left out
	}
	return report.Chart{
		Title:  "Decisions a second by callers, " + traffic,
		XLabel: "callers", YLabel: "decisions/s, against redis_rate with one caller",
		XTicks: ticks, Order: pictured, Lines: lines,
	}.Save(filepath.Join(b.pictures, file))
}
