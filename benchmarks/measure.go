package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/load"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/peers"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/report"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/server"
)

// figures are what one measurement of one limiter brought, per decision where
// that makes sense. Times are in microseconds.
type figures struct {
	perSecond, p50, p99, allocs, clientCPU, serverCPU, script, sent, ran, refused, errors float64
}

// rounds are the figures of each limiter, round by round.
type rounds map[string][]figures

// A figure is one of them.
type figure func(figures) float64

func perSecond(f figures) float64 { return f.perSecond }
func p50(f figures) float64       { return f.p50 }
func p99(f figures) float64       { return f.p99 }
func allocs(f figures) float64    { return f.allocs }
func clientCPU(f figures) float64 { return f.clientCPU }
func serverCPU(f figures) float64 { return f.serverCPU }
func script(f figures) float64    { return f.script }
func sent(f figures) float64      { return f.sent }
func ran(f figures) float64       { return f.ran }
func refused(f figures) float64   { return f.refused }
func failed(f figures) float64    { return f.errors }

func (r rounds) series(name string, get figure) report.Series {
	var s report.Series
	for _, f := range r[name] {
		s = append(s, get(f))
	}
	return s
}

// median of a figure by itself; NaN if the limiter was not measured.
func (r rounds) median(name string, get figure) float64 { return r.series(name, get).Median() }

// ratio is the median of the ratios of two limiters.
func (r rounds) ratio(name, base string, get figure) float64 {
	return r.series(name, get).Over(r.series(base, get)).Median()
}

// A contender is a limiter that takes part in a cell. It keeps its state, and
// its keys go on where they were, when it is its turn again.
type contender struct {
	peers.Peer
	decide     load.Decide
	keys, warm load.Keys
}

// takeTurns measures the limiters in many short turns, each round in the
// opposite order of the one before: whatever else the machine does for longer
// than a turn meets all of them, and cancels out of their ratios.
func (b *bench) takeTurns(ctx context.Context, limiters []peers.Peer, w workload) (rounds, error) {
	if err := b.server.FlushAll(ctx).Err(); err != nil {
		return nil, err
	}
	var order []*contender
	for _, p := range limiters {
		c, err := b.enter(ctx, p, w)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		order = append(order, c)
	}
	all := rounds{}
	for range b.roundsOf(w) {
		for _, c := range order {
			f, err := b.measure(ctx, c, w)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", c.Name, err)
			}
			all[c.Name] = append(all[c.Name], f)
		}
		slices.Reverse(order)
	}
	return all, nil
}

func (b *bench) roundsOf(w workload) int {
	if w.rounds > 0 {
		return min(w.rounds, b.settings.rounds)
	}
	return b.settings.rounds
}

// enter makes a limiter, and all that has to be there before it is measured.
func (b *bench) enter(ctx context.Context, p peers.Peer, w workload) (*contender, error) {
	decide, err := p.Open(b.client(p.Name), w.quota)
	if err != nil {
		return nil, err
	}
	c := &contender{p, decide, load.Continued(w.keys), w.warm}
	if c.warm == nil {
		c.warm = w.keys
	}
	prime(ctx, decide, w.prime)
	b.ask(ctx, c, w.callers, b.warming, c.warm)
	return c, nil
}

// ask lets a crowd ask for a while: long enough that a big one, too, has its
// calls answered several times.
func (b *bench) ask(ctx context.Context, c *contender, callers int, lasting time.Duration, keys load.Keys) *load.Outcome {
	lasting = max(lasting, time.Duration(callers)*lasting/256)
	return load.Closed(ctx, c.decide, load.Plan{Callers: callers, For: lasting, Keys: keys, Every: c.Every})
}

// measure is one turn.
func (b *bench) measure(ctx context.Context, c *contender, w workload) (figures, error) {
	b.ask(ctx, c, w.callers, b.warming/4, c.warm) // what the others did to the caches is not its fault
	before, err := b.server.Usage(ctx)
	if err != nil {
		return figures{}, err
	}
	o := b.ask(ctx, c, w.callers, b.lasting, c.keys)
	after, err := b.server.Usage(ctx)
	if err != nil {
		return figures{}, err
	}
	if ctx.Err() != nil {
		return figures{}, ctx.Err()
	}
	if o.Decisions == 0 {
		return figures{}, fmt.Errorf("no decision at all: %w", o.FirstError)
	}
	return figuresOf(c.Peer, o, after.Since(before)), nil
}

// figuresOf divides by the decisions.
func figuresOf(p peers.Peer, o *load.Outcome, usage server.Usage) figures {
	n := float64(o.Decisions)
	return figures{
		perSecond: n / o.Elapsed.Seconds(),
		p50:       float64(o.Latency.Quantile(0.50)) / 1000, p99: float64(o.Latency.Quantile(0.99)) / 1000,
		allocs: float64(o.Mallocs) / n, clientCPU: float64(o.CPU.Microseconds()) / n,
		serverCPU: float64(usage.CPU.Microseconds()) / n, script: usage.Script(),
		sent: p.Commands(usage.Calls) / n, ran: usage.Total() / n,
		refused: float64(o.Refused) / n, errors: float64(o.Errors) / (n + float64(o.Errors)),
	}
}

// prime asks about each of the first keys once, several at a time.
func prime(ctx context.Context, decide load.Decide, keys int) {
	const hands = 32
	var all sync.WaitGroup
	for hand := range hands {
		all.Go(func() {
			for i := hand; i < keys; i += hands {
				_, _ = decide(ctx, load.Key(i)) // what fails here fails in the measurement
			}
		})
	}
	all.Wait()
}

// notMeasured is what a table shows as a dash.
var notMeasured = math.NaN()
