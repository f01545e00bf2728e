package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/load"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/peers"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/report"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/server"
)

// A fleet is a cluster and a limiter on it.
type fleet struct {
	*server.Cluster
	peer   peers.Peer
	decide load.Decide
	rounds []figures
}

// growthOfPrimaries measures what a decision costs as a cluster grows. All
// clusters run at once and take turns.
func (b *bench) growthOfPrimaries(ctx context.Context) error {
	contenders := peers.Named(peers.Bucket, peers.RedisRate)
	var fleets []*fleet
	for i := range b.primaries {
		b.progress("a cluster of %d primaries", i+1)
		c, err := server.StartCluster(ctx, i+1)
		if err != nil {
			return err
		}
		defer c.Stop()
		for _, p := range contenders {
			rdb := redis.NewClusterClient(&redis.ClusterOptions{Addrs: c.Addrs, PoolSize: b.pool, ContextTimeoutEnabled: true})
			defer rdb.Close()
			decide, err := p.Open(rdb, peers.Plenty)
			if err != nil {
				return err
			}
			fleets = append(fleets, &fleet{Cluster: c, peer: p, decide: decide})
		}
	}
	order := slices.Clone(fleets)
	for range b.settings.rounds + 1 { // the first warms up
		for _, f := range order {
			if err := b.sail(ctx, f); err != nil {
				return fmt.Errorf("%s on %v: %w", f.peer.Name, f.Addrs, err)
			}
		}
		slices.Reverse(order)
	}
	b.printPrimaries(fleets, len(contenders))
	return nil
}

const fleetCallers = 256

func (b *bench) sail(ctx context.Context, f *fleet) error {
	plan := load.Plan{Callers: fleetCallers, For: b.lasting, Keys: load.Among(10_000)}
	before, err := f.Usage(ctx)
	if err != nil {
		return err
	}
	o := load.Closed(ctx, f.decide, plan)
	after, err := f.Usage(ctx)
	if err != nil {
		return err
	}
	if o.Decisions == 0 {
		return fmt.Errorf("no decision at all: %w", o.FirstError)
	}
	f.rounds = append(f.rounds, figuresOf(f.peer, o, after.Since(before)))
	return nil
}

func (b *bench) printPrimaries(fleets []*fleet, contenders int) {
	series := func(f *fleet, get figure) report.Series { return rounds{"": f.rounds[1:]}.series("", get) }
	table := report.New("Growth: primaries of a cluster, 10,000 keys, 256 callers", "primaries", "decisions/s against "+peers.RedisRate, "p99 against it",
		"server CPU against it", "server CPU against one primary", "commands sent")
	for i := 0; i < len(fleets); i += contenders {
		own, its := fleets[i], fleets[i+1]
		against := func(get figure) string { return report.Times(series(own, get).Over(series(its, get)).Median()) }
		table.Row(fmt.Sprint(i/contenders+1), against(perSecond), against(p99), against(serverCPU),
			report.Times(series(own, serverCPU).Over(series(fleets[0], serverCPU)).Median()), report.Number(series(own, sent).Median()))
	}
	table.Note("Calls of one node share trips there, as a pipeline with a command for each key.")
	b.print(table)
}
