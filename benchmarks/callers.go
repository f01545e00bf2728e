package main

import (
	"context"
	"slices"
	"strconv"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/load"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/peers"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/report"
)

// The kinds of traffic.
const (
	hotKey     = "one hot key"
	tenK       = "10,000 keys"
	million    = "1,000,000 keys"
	mostlyNot  = "90 % refused"
	refusedKey = "one refused key"
)

var traffic = []struct {
	name string
	workload
	note string
}{
	{hotKey, workload{quota: peers.Plenty, keys: load.One}, "Everybody asks about the same key, and all of it is admitted. throttled, which gives up when it is overtaken ten times, is left out above 64 callers."},
	{tenK, workload{quota: peers.Plenty, keys: load.Among(10_000)}, "Keys at random, all of it admitted."},
	{million, workload{quota: peers.Plenty, keys: load.Among(load.Pool)}, "The server is empty at first, so that nearly every call meets a key for the first time."},
	{mostlyNot, workload{quota: peers.Single, keys: load.MostlySpent, warm: load.Among(load.Spent), prime: load.Spent},
		"Nine of ten calls are about one of 1,000 keys that are used up, the tenth about a new key."},
}

// callers measures limiters on Redis by the number of callers.
func (b *bench) callers(ctx context.Context) error {
	contenders := peers.Named(peers.Bucket, peers.RedisRate, peers.Ulule, peers.Throttled)
	for _, t := range traffic {
		table := newCrowdTable(t.name + ", against " + peers.RedisRate)
		for _, n := range b.crowds {
			b.progress("%s, %d callers", t.name, n)
			w := t.workload
			w.callers = n
			with := slices.Concat(contenders, decorated(t.name))
			if t.name == hotKey && n > 64 {
				// It compares and swaps, and of so many callers one succeeds at a time:
				// it would take most of the run to count its errors.
				with = slices.DeleteFunc(with, func(p peers.Peer) bool { return p.Name == peers.Throttled })
			}
			r, err := b.takeTurns(ctx, with, w)
			if err != nil {
				return err
			}
			b.results[cell{t.name, n}] = r
			crowdRows(table, n, with, r)
		}
		table.Note("%s", t.note)
		b.print(table)
	}
	return nil
}

// decorated are our limiters behind the decorator that is made for a traffic.
func decorated(traffic string) []peers.Peer {
	switch traffic {
	case hotKey:
		return peers.Named(peers.Leased)
	case mostlyNot, refusedKey:
		return peers.Named(peers.Cached)
	}
	return nil
}

// refusedKey measures what an abuser costs who goes on after the refusal.
func (b *bench) refusedKey(ctx context.Context) error {
	contenders := append(peers.Named(peers.Bucket, peers.RedisRate, peers.Ulule, peers.Throttled), decorated(refusedKey)...)
	table := newCrowdTable(refusedKey + ", against " + peers.RedisRate)
	for _, n := range []int{1, 64} {
		b.progress("%s, %d callers", refusedKey, n)
		r, err := b.takeTurns(ctx, contenders, workload{quota: peers.Single, keys: load.One, prime: 1, callers: n})
		if err != nil {
			return err
		}
		b.results[cell{refusedKey, n}] = r
		crowdRows(table, n, contenders, r)
	}
	table.Note("All of it is refused.")
	b.print(table)
	return nil
}

func newCrowdTable(title string) *report.Table {
	t := report.New(title, "limiter", "callers", "decisions/s", "p50", "p99", "server CPU", "client CPU", "allocations", "commands sent", "commands run", "refused", "errors")
	t.Note("Decisions, latencies and processor time are ratios. Allocations (of the whole client, go-redis included) and commands are per decision; " +
		"commands run include those that scripts call.")
	return t
}

func crowdRows(t *report.Table, callers int, contenders []peers.Peer, r rounds) {
	for _, p := range contenders {
		times := func(get figure) string { return report.Times(r.ratio(p.Name, peers.RedisRate, get)) }
		plain := func(get figure) string { return report.Number(r.median(p.Name, get)) }
		t.Row(p.Name, strconv.Itoa(callers), times(perSecond), times(p50), times(p99), times(serverCPU), times(clientCPU),
			plain(allocs), plain(sent), plain(ran), report.Percent(r.median(p.Name, refused)), report.Percent(r.median(p.Name, failed)))
	}
}
