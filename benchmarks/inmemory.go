package main

import (
	"context"
	"runtime"
	"strconv"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/load"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/peers"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/report"
)

const inMemory = " in memory"

// memory measures the limiters of one process. Every 16th call is timed.
func (b *bench) memory(ctx context.Context) error {
	const hundredK = "100,000 keys"
	contenders := peers.Named(peers.Memory, peers.RateInMap, peers.GoLimiter, peers.UluleMemory)
	table := report.New("In memory, against "+peers.RateInMap, "limiter", "traffic", "callers", "decisions/s", "p50", "p99", "client CPU", "allocations", "refused")
	for _, t := range []struct {
		name string
		workload
	}{
		{hotKey, workload{quota: peers.Plenty, keys: load.One}},
		{hundredK, workload{quota: peers.Plenty, keys: load.Among(100_000), prime: 100_000}},
		{million, workload{quota: peers.Plenty, keys: load.Among(load.Pool), prime: load.Pool, rounds: 5}},
		{mostlyNot, workload{quota: peers.Single, keys: load.MostlySpent, warm: load.Among(load.Spent), prime: load.Spent}},
	} {
		if t.name == million && !b.million {
			continue
		}
		for _, n := range []int{1, runtime.GOMAXPROCS(0)} {
			b.progress("in memory, %s, %d callers", t.name, n)
			w := t.workload
			w.callers = n
			r, err := b.takeTurns(ctx, contenders, w)
			if err != nil {
				return err
			}
			b.results[cell{t.name + inMemory, n}] = r
			for _, p := range contenders {
				times := func(get figure) string { return report.Times(r.ratio(p.Name, peers.RateInMap, get)) }
				table.Row(p.Name, t.name, strconv.Itoa(n), times(perSecond), times(p50), times(p99), times(clientCPU),
					report.Number(r.median(p.Name, allocs)), report.Percent(r.median(p.Name, refused)))
			}
		}
	}
	table.Note("Keys are there before, except the new ones of the refused traffic. The last number of callers is that of the processors.")
	b.print(table)
	return nil
}
