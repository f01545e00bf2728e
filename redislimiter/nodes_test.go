package redislimiter_test

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// ringOf is a Ring over servers of their own.
func ringOf(t *testing.T, servers ...*miniredis.Miniredis) *redis.Ring {
	t.Helper()
	addrs := map[string]string{}
	for i, s := range servers {
		addrs[fmt.Sprint("shard", i)] = s.Addr()
	}
	ring := redis.NewRing(&redis.RingOptions{Addrs: addrs})
	t.Cleanup(func() { ring.Close() })
	return ring
}

// Clients of several nodes: a Ring of two servers, and a cluster, here of one.
func manyNodes(t *testing.T) map[string]redis.UniversalClient {
	t.Helper()
	cluster := redis.NewClusterClient(&redis.ClusterOptions{Addrs: []string{miniredis.RunT(t).Addr()}})
	t.Cleanup(func() { cluster.Close() })
	return map[string]redis.UniversalClient{"Ring": ringOf(t, miniredis.RunT(t), miniredis.RunT(t)), "Cluster": cluster}
}

func TestExactOnManyNodes(t *testing.T) {
	for name, client := range manyNodes(t) {
		t.Run(name, func(t *testing.T) {
			l, err := rl.New(client, "test", rl.TokenBucket(1, time.Hour, 20), rl.SlidingWindowLog(25, time.Hour))
			if err != nil {
				t.Fatal(err)
			}
			l.Timeout = time.Minute
			if err := l.Check(t.Context()); err != nil {
				t.Fatal(err)
			}
			const keys = 20
			var admitted [keys]atomic.Int64
			var wg sync.WaitGroup
			for i := range keys * 50 {
				wg.Go(func() {
					if allowAny(t, l, fmt.Sprint(i%keys), 1).Allowed {
						admitted[i%keys].Add(1)
					}
				})
			}
			wg.Wait()
			for i := range admitted {
				if n := admitted[i].Load(); n != 20 {
					t.Errorf("key %d: admitted %d of 20", i, n)
				}
			}
		})
	}
}

// Every shard has its own scripts: each that lacks one is repaired.
func TestScriptIsLoadedOnEveryShard(t *testing.T) {
	one, two := miniredis.RunT(t), miniredis.RunT(t)
	ring := ringOf(t, one, two)
	l, err := rl.New(ring, "test", rl.TokenBucket(1, time.Hour, 100))
	if err != nil {
		t.Fatal(err)
	}
	l.Timeout = 10 * time.Second
	for range 3 {
		for i := range 40 {
			allow(t, l, fmt.Sprint(i), 1, true)
		}
		for _, s := range []*miniredis.Miniredis{one, two} {
			if len(s.Keys()) == 0 {
				t.Fatal("a shard holds no key")
			}
			client := redis.NewClient(&redis.Options{Addr: s.Addr()})
			if err := client.ScriptFlush(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			client.Close()
		}
	}
	for i := range 40 {
		if r := allow(t, l, fmt.Sprint(i), 0, true); r.Remaining != 97 {
			t.Fatalf("key %d: %+v", i, r)
		}
	}
}

// One shard that is down takes only its own keys with it.
func TestOneShardDown(t *testing.T) {
	one, two := miniredis.RunT(t), miniredis.RunT(t)
	ring := ringOf(t, one, two)
	l, err := rl.New(ring, "test", rl.TokenBucket(1, time.Hour, 100))
	if err != nil {
		t.Fatal(err)
	}
	l.Timeout = 10 * time.Second
	for i := range 40 {
		allow(t, l, fmt.Sprint(i), 1, true)
	}
	held := len(two.Keys())
	one.SetError("LOADING Redis is loading the dataset in memory")
	ctx, cancel := context.WithCancel(t.Context())
	l.Timeout = time.Minute
	decided := make(chan struct{}, 40)
	var wg sync.WaitGroup
	for i := range 40 {
		wg.Go(func() {
			if _, err := l.Allow(ctx, fmt.Sprint(i)); err == nil {
				decided <- struct{}{}
			}
		})
	}
	for range held { // while the calls of the shard that is down still wait
		<-decided
	}
	cancel()
	wg.Wait()
	if n := len(decided); n > 0 {
		t.Fatalf("%d more than the %d keys of the other shard were decided", n, held)
	}
}

func TestAllowAllAcrossNodes(t *testing.T) {
	for name, client := range manyNodes(t) {
		t.Run(name, func(t *testing.T) {
			address, err1 := rl.New(client, "address", rl.TokenBucket(1, time.Hour, 5))
			account, err2 := rl.New(client, "account", rl.TokenBucket(1, time.Hour, 2))
			if err1 != nil || err2 != nil {
				t.Fatal(err1, err2)
			}
			address.Timeout, account.Timeout = 10*time.Second, 10*time.Second
			for i := range 10 {
				charges := []rl.Charge{{Limiter: address, Key: fmt.Sprint("ip", i), N: 1}, {Limiter: account, Key: "ann", N: 1}}
				allowAll(t, i < 2, charges...)
				if left, want := allow(t, address, fmt.Sprint("ip", i), 0, true).Remaining, map[bool]int{true: 4, false: 5}[i < 2]; left != want {
					t.Fatalf("address %d has %d left, want %d", i, left, want)
				}
			}
			// Of one key, and so of one slot, in one trip.
			allowAll(t, true, rl.Charge{Limiter: address, Key: "k", N: 1}, rl.Charge{Limiter: account, Key: "k", N: 2})
			allowAll(t, false, rl.Charge{Limiter: address, Key: "k", N: 1}, rl.Charge{Limiter: account, Key: "k", N: 1})
			if left := allow(t, address, "k", 0, true).Remaining; left != 4 {
				t.Fatalf("%d left", left)
			}
		})
	}
}
