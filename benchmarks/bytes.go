package main

import (
	"context"
	"fmt"
	"time"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/peers"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/report"
)

// bytes counts what keys take in Redis.
func (b *bench) bytes(ctx context.Context) error {
	table := report.New("Bytes in Redis, a key", "limiter", "MEMORY USAGE", "used_memory", "against "+peers.RedisRate)
	b.progress("bytes")
	base, logAll := notMeasured, notMeasured
	for _, name := range []string{peers.RedisRate, peers.Bucket, peers.GCRA, peers.Counter, peers.Hits} {
		own, all, err := b.bytesPerKey(ctx, name)
		if err != nil {
			return err
		}
		if name == peers.RedisRate {
			base = all
		}
		b.scalars["bytes "+name], logAll = own, all // the log comes last
		table.Row(name, report.Number(own), report.Number(all), report.Times(all/base))
	}
	for _, hits := range []int{128, 1000} {
		own, all, err := b.bytesPerHit(ctx, hits)
		if err != nil {
			return err
		}
		// What a key takes without its hits is in the line above.
		own = (own - b.scalars["bytes "+peers.Hits]) / float64(hits-1)
		b.scalars[fmt.Sprintf("bytes a hit, %d", hits)] = own
		table.Row(fmt.Sprintf("%s of %d hits, every hit after the first", peers.Hits, hits), report.Number(own), report.Number((all-logAll)/float64(hits-1)), "")
	}
	table.Note("%d keys, limits of 100 a minute, half of it used, of the log one hit. MEMORY USAGE is what the key takes by itself, the average of 100 keys; used_memory is the growth of the whole server "+
		"divided by the keys, with its share of the hash tables of keys and of expiry times, which grow in powers of two. Names of keys have 12 bytes.", b.keysHeld)
	b.print(table)
	return nil
}

func (b *bench) bytesPerKey(ctx context.Context, name string) (own, all float64, err error) {
	return b.growthOfMemory(ctx, b.keysHeld, func() error {
		// The rate of an ordinary API, half used up so that keys stay while they are counted.
		return b.fill(ctx, filling{name, peers.Quota{Rate: 100, Per: time.Minute, Burst: 100}, unitsOf(name)}, b.keysHeld)
	})
}

// unitsOf is how much is charged to each key: a log grows by it.
func unitsOf(name string) int {
	if name == peers.Hits {
		return 1
	}
	return 50
}

// bytesPerHit charges one unit at a time: units of one call would be stored
// with one time, and that might be smaller.
func (b *bench) bytesPerHit(ctx context.Context, hits int) (own, all float64, err error) {
	const inCall = 50
	keys := max(b.keysHeld/100, inCall)
	hit := filling{peers.Hits, peers.Quota{Rate: 1, Per: time.Hour, Burst: hits}, 1}
	own, all, err = b.growthOfMemory(ctx, keys, func() error {
		return b.pipeline(ctx, func(yield func(peers.Call) error) error {
			for range hits {
				for first := 0; first < keys; first += inCall {
					call, err := hit.calls(first, inCall)
					if err == nil {
						err = yield(call)
					}
					if err != nil {
						return err
					}
				}
			}
			return nil
		}, 100)
	})
	return own, all, err
}

// growthOfMemory is how much the server grows by what fill does, a key, and
// how large it says that keys are.
func (b *bench) growthOfMemory(ctx context.Context, keys int, fill func() error) (own, all float64, err error) {
	if err := b.server.FlushAll(ctx).Err(); err != nil {
		return 0, 0, err
	}
	if err := fill(); err != nil { // once for the scripts and the buffers
		return 0, 0, err
	}
	if err := b.server.FlushAll(ctx).Err(); err != nil {
		return 0, 0, err
	}
	before, err := b.server.Usage(ctx)
	if err != nil {
		return 0, 0, err
	}
	if err := fill(); err != nil {
		return 0, 0, err
	}
	after, err := b.server.Usage(ctx)
	if err != nil {
		return 0, 0, err
	}
	const sample = 100
	total := int64(0)
	for range sample {
		key, err := b.server.RandomKey(ctx).Result()
		if err != nil {
			return 0, 0, err
		}
		n, err := b.server.MemoryUsage(ctx, key, 0).Result() // 0: every element
		if err != nil {
			return 0, 0, err
		}
		total += n
	}
	return float64(total) / sample, after.Since(before).Memory / float64(keys), nil
}
