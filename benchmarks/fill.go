package main

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/load"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/peers"
)

// A filling is what a server is filled with.
type filling struct {
	name  string // of the limiter
	quota peers.Quota
	units int // charged to each key
}

// fill charges n keys, without waiting for every answer: by the limiter's own
// script in pipelines.
func (b *bench) fill(ctx context.Context, f filling, n int) error {
	const inCall, inPipeline = 50, 1000
	return b.pipeline(ctx, func(yield func(peers.Call) error) error {
		step := inCall
		if f.name == peers.RedisRate {
			step = 1 // its script takes one key
		}
		for first := 0; first < n; first += step {
			call, err := f.calls(first, min(step, n-first))
			if err != nil {
				return err
			}
			if err := yield(call); err != nil {
				return err
			}
		}
		return nil
	}, inPipeline)
}

// calls charges some keys that follow each other.
func (f filling) calls(first, n int) (peers.Call, error) {
	keys := make([]string, n)
	for i := range keys {
		keys[i] = load.Key(first + i)
	}
	return f.call(keys...)
}

func (f filling) call(keys ...string) (peers.Call, error) {
	if f.name == peers.RedisRate {
		return peers.RedisRateCall(f.quota, f.units, keys[0])
	}
	return peers.OurCall(f.name, f.quota, f.units, keys...)
}

// pipeline sends calls, so many at a time.
func (b *bench) pipeline(ctx context.Context, calls func(yield func(peers.Call) error) error, size int) error {
	var pipe redis.Pipeliner
	flush := func() error {
		if pipe == nil {
			return nil
		}
		_, err := pipe.Exec(ctx)
		pipe = nil
		return err
	}
	known := map[string]bool{}
	err := calls(func(c peers.Call) error {
		if !known[c.Script.Hash()] {
			known[c.Script.Hash()] = true
			if err := c.Script.Load(ctx, b.server).Err(); err != nil {
				return err
			}
		}
		if pipe == nil {
			pipe = b.server.Pipeline()
		}
		if c.Send(ctx, pipe); pipe.Len() >= size {
			return flush()
		}
		return nil
	})
	if err != nil {
		return err
	}
	return flush()
}
