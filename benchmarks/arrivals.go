package main

import (
	"context"
	"fmt"
	"math"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/load"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/peers"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/report"
)

// arrivals measures p99 by the load that is offered, whether or not the
// limiter keeps up: requests arrive at a rate of their own. The unit of load is
// what redis_rate sustains with 256 callers, that of latency its p99 at the
// least load.
func (b *bench) arrivals(ctx context.Context) error {
	capacity, err := b.capacity(ctx)
	if err != nil {
		return err
	}
	contenders := peers.Named(peers.Bucket, peers.RedisRate, peers.Ulule)
	table := report.New("p99 by offered load, 10,000 keys, against "+peers.RedisRate+" at the least load", "load", contenders[0].Name, contenders[1].Name, contenders[2].Name)
	behind := map[string]bool{}
	unit := notMeasured
	b.plots.arrivals = curves{}
	for i, share := range b.loads {
		b.progress("offered load %v", share)
		late, err := b.offer(ctx, contenders, behind, share*capacity)
		if err != nil {
			return err
		}
		if i == 0 {
			unit = late[peers.RedisRate]
		}
		row := []string{report.Times(share)}
		for _, p := range contenders {
			row = append(row, report.Times(late[p.Name]/unit))
			b.plots.arrivals.add(p.Name, share, late[p.Name]/unit)
		}
		table.Row(row...)
	}
	table.Note("Load is a multiple of what redis_rate decides with 256 callers. Latency counts from when a request was due. A dash: it did not keep up.")
	b.print(table)
	return nil
}

// capacity is how much redis_rate decides in a second at most.
func (b *bench) capacity(ctx context.Context) (float64, error) {
	r, err := b.takeTurns(ctx, peers.Named(peers.RedisRate), workload{quota: peers.Plenty, keys: load.Among(10_000), callers: 256})
	return r.median(peers.RedisRate, perSecond), err
}

// offer is the p99 of each limiter under a load, the median of the rounds. One
// that was behind before, or is in most rounds now, has none: its latency is
// that of a backlog, and depends on how long one watches it grow.
func (b *bench) offer(ctx context.Context, contenders []peers.Peer, behind map[string]bool, rate float64) (map[string]float64, error) {
	all := map[string]report.Series{}
	for range (b.settings.rounds + 2) / 3 {
		for _, p := range contenders {
			if behind[p.Name] {
				continue
			}
			micros, err := b.offerOnce(ctx, p, rate)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.Name, err)
			}
			all[p.Name] = append(all[p.Name], micros)
		}
	}
	late := map[string]float64{}
	for _, p := range contenders {
		if late[p.Name] = all[p.Name].Median(); math.IsInf(late[p.Name], 1) {
			late[p.Name], behind[p.Name] = notMeasured, true
		}
	}
	return late, nil
}

// offerOnce is infinite if the limiter does not keep up.
func (b *bench) offerOnce(ctx context.Context, p peers.Peer, rate float64) (float64, error) {
	lasting := 4 * b.lasting // there are few requests at the least load
	if err := b.server.FlushAll(ctx).Err(); err != nil {
		return 0, err
	}
	decide, err := p.Open(b.client(p.Name), peers.Plenty)
	if err != nil {
		return 0, err
	}
	load.Closed(ctx, decide, load.Plan{Callers: 64, For: b.warming, Keys: load.Among(10_000)})
	o, kept := load.Open(ctx, decide, load.Among(10_000), rate, lasting)
	if !kept || o.Errors > 0 || o.Elapsed > lasting+lasting/4 {
		return math.Inf(1), ctx.Err()
	}
	return float64(o.Latency.Quantile(0.99)), nil
}
