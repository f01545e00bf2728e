package main

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/load"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/peers"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/report"
)

const (
	keysInTrip = 50
	manySuffix = ", 50 keys a call"
)

// many is a peer whose decision is one call of a script for 50 keys.
func many(algorithm string) peers.Peer {
	return peers.Peer{Name: algorithm + manySuffix, Open: func(rdb redis.UniversalClient, q peers.Quota) (load.Decide, error) {
		return peers.Many(rdb, algorithm, q, keysInTrip)
	}}
}

var algorithms = []string{peers.Bucket, peers.GCRA, peers.Counter, peers.Hits}

// scriptTimes compares the time that the server spends inside each script, by
// INFO commandstats, when a lone caller asks: nothing is shared then.
func (b *bench) scriptTimes(ctx context.Context) error {
	contenders := peers.Named(append(algorithms, peers.Three, peers.RedisRate, peers.Ulule, peers.Nothing)...)
	with := contenders
	for _, algorithm := range algorithms {
		with = append(with, many(algorithm))
	}
	b.progress("script times, admitted")
	admitted, err := b.scriptRounds(ctx, with, peers.Plenty)
	if err != nil {
		return err
	}
	b.progress("script times, refused")
	denied, err := b.scriptRounds(ctx, contenders, peers.Single)
	if err != nil {
		return err
	}
	b.scripts = admitted
	table := report.New("Server time inside the script, against "+peers.RedisRate, "script", "admitted", "refused", "50 keys a call, per key", "commands run")
	for _, p := range contenders {
		table.Row(p.Name, report.Times(admitted.ratio(p.Name, peers.RedisRate, script)), report.Times(denied.ratio(p.Name, peers.RedisRate, script)),
			report.Times(admitted.ratio(p.Name+manySuffix, peers.RedisRate, script)/keysInTrip), report.Number(admitted.median(p.Name, ran)))
	}
	table.Note("One caller, %d keys in turn, %d rounds of %d calls each. The log admits %d per %v there and holds a good part of that; the others' keys are far "+
		"from their limit. Refusals are compared with redis_rate's. ulule/limiter writes on a refusal too.", peers.LogKeys, b.batches, batch, peers.Log.Burst, peers.Log.Per)
	b.print(table)
	return nil
}

// batch is how many calls of a script follow each other before it is the next
// one's turn. It takes a few milliseconds: when the system gives the server's
// processor to somebody else meanwhile, that spoils one batch of many, and the
// median does not see it.
const batch = 100

// scriptRounds runs the scripts of all limiters in short turns on one server,
// where each has keys of its own.
func (b *bench) scriptRounds(ctx context.Context, contenders []peers.Peer, q peers.Quota) (rounds, error) {
	if err := b.server.FlushAll(ctx).Err(); err != nil {
		return nil, err
	}
	decides := map[string]load.Decide{}
	for _, p := range contenders {
		quota := q
		if q == peers.Plenty && (p.Name == peers.Hits || p.Name == peers.Hits+manySuffix) {
			quota = peers.Log
		}
		decide, err := p.Open(b.client(p.Name), quota)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", p.Name, err)
		}
		prime(ctx, decide, peers.LogKeys)
		decides[p.Name] = decide
	}
	all := rounds{}
	for range b.batches {
		for _, p := range contenders {
			f, err := b.runBatch(ctx, decides[p.Name])
			if err != nil {
				return nil, fmt.Errorf("%s: %w", p.Name, err)
			}
			all[p.Name] = append(all[p.Name], f)
		}
	}
	return all, nil
}

func (b *bench) runBatch(ctx context.Context, decide load.Decide) (figures, error) {
	before, err := b.server.Usage(ctx)
	if err != nil {
		return figures{}, err
	}
	for i := range batch {
		if _, err := decide(ctx, load.Key(i%peers.LogKeys)); err != nil {
			return figures{}, err
		}
	}
	after, err := b.server.Usage(ctx)
	usage := after.Since(before)
	return figures{script: usage.Script(), ran: usage.Total() / batch}, err
}
