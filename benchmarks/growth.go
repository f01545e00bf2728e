package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/load"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/peers"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/report"
)

// growth measures how the cost of a decision grows with what is stored.
func (b *bench) growth(ctx context.Context) error {
	if err := b.growthOfLog(ctx); err != nil {
		return err
	}
	if err := b.growthOfKeys(ctx); err != nil {
		return err
	}
	return b.growthOfPrimaries(ctx)
}

// growthOfLog charges logs that are full but for the charges that are measured,
// and full ones.
func (b *bench) growthOfLog(ctx context.Context) error {
	b.progress("logs of %v hits", b.logLimits)
	if err := b.server.FlushAll(ctx).Err(); err != nil {
		return err
	}
	var calls []peers.Call
	for i, held := range b.logLimits {
		for j, room := range []int{b.batches * batch, 0} {
			key := load.Key(2*i + j)
			q := peers.Quota{Rate: 1, Per: time.Hour, Burst: held + room}
			if err := b.runCall(ctx, filling{peers.Hits, q, held}, key); err != nil {
				return err
			}
			one, err := filling{peers.Hits, q, 1}.call(key)
			if err != nil {
				return err
			}
			calls = append(calls, one)
		}
	}
	times, err := b.callsInTurn(ctx, len(calls), func(i int) peers.Call { return calls[i] })
	if err != nil {
		return err
	}
	table := report.New("Growth: a log, by the hits that it holds", "hits", "admitted", "refused")
	for i, held := range b.logLimits {
		table.Row(fmt.Sprint(held), report.Times(times[2*i].Over(times[0]).Median()), report.Times(times[2*i+1].Over(times[1]).Median()))
	}
	table.Note("Server time inside the script, against that of the first line. Nothing leaves the window meanwhile, and up to %d hits come on top of the number in the first column.", b.batches*batch)
	b.print(table)
	return nil
}

func (b *bench) runCall(ctx context.Context, f filling, key string) error {
	c, err := f.call(key)
	if err != nil {
		return err
	}
	return c.Script.Run(ctx, b.server, c.Keys, c.Args...).Err()
}

// growthOfKeys fills the server and then asks about keys at random.
func (b *bench) growthOfKeys(ctx context.Context) error {
	table := report.New("Growth: keys in the server", "keys of each", peers.Bucket, peers.RedisRate, peers.Bucket+" against "+peers.RedisRate)
	names := []string{peers.Bucket, peers.RedisRate}
	var first []report.Series
	for _, n := range b.population {
		b.progress("%d keys of each", n)
		if err := b.server.FlushAll(ctx).Err(); err != nil {
			return err
		}
		for _, name := range names {
			if err := b.fill(ctx, half(name, 50), n); err != nil {
				return err
			}
		}
		next := load.Among(n)(0, 1)
		times, err := b.callsInTurn(ctx, len(names), func(i int) peers.Call {
			c, err := half(names[i], 1).call(next())
			if err != nil {
				panic(err) // it worked when the server was filled
			}
			return c
		})
		if err != nil {
			return err
		}
		if first == nil {
			first = times
		}
		table.Row(fmt.Sprint(n), report.Times(times[0].Median()/first[0].Median()), report.Times(times[1].Median()/first[1].Median()),
			report.Times(times[0].Over(times[1]).Median()))
	}
	table.Note("Server time inside the script for keys at random, all of them there already, against that of the first line; in pipelines of %d.", batch)
	b.print(table)
	return b.server.FlushAll(ctx).Err() // what expires there would keep a processor busy
}

// half is a filling that keeps its keys for longer than it takes to fill, and
// has room for what is measured afterwards.
func half(name string, units int) filling {
	return filling{name, peers.Quota{Rate: 100, Per: time.Hour, Burst: 100}, units}
}

// callsInTurn runs n kinds of calls in turn, a batch of each in a pipeline, and
// returns the times of their scripts in microseconds.
func (b *bench) callsInTurn(ctx context.Context, n int, call func(kind int) peers.Call) ([]report.Series, error) {
	times := make([]report.Series, n)
	for range b.batches {
		for kind := range n {
			before, err := b.server.Usage(ctx)
			if err != nil {
				return nil, err
			}
			_, err = b.server.Pipelined(ctx, func(pipe redis.Pipeliner) error {
				for range batch {
					call(kind).Send(ctx, pipe)
				}
				return nil
			})
			if err != nil {
				return nil, err
			}
			after, err := b.server.Usage(ctx)
			if err != nil {
				return nil, err
			}
			times[kind] = append(times[kind], after.Since(before).Script())
		}
	}
	return times, nil
}
