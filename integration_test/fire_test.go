package integration_test

import (
	"cmp"
	"context"
	"flag"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/processes"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

var fireCalls = flag.Int("fire", 45_000, "decisions under fire, on all kinds of servers together; 1000000 for a long run")

// A barrage is what one process does to limiters of all algorithms: it asks all keys of all of them at random. Periods
// are short, so that windows end and buckets refill while it lasts.
type barrage struct {
	Addr, Name string
	Calls      int
}

const (
	barrageKeys = 8 // of each limiter
	barrageRate = 12
	barragePer  = 50 * time.Millisecond
)

// What a process was told by one limiter, and what the limiter sent.
type told struct {
	Trips []trip
	Keys  [barrageKeys]digest
}

// A trip is what one script decided, and when by the server's clock in microseconds.
type trip struct {
	Now     int64
	Entries []entry
}

// An entry is a number of requests of one cost for one key.
type entry struct {
	Key         int
	Cost, Count int64
}

// A digest is of a set of results, in whatever order they came: the sum of their hashes.
type digest struct {
	Results, Admitted int
	Sum               uint64
}

func (d *digest) add(r rl.Result) {
	h := fnv.New64a()
	fmt.Fprint(h, r.Allowed, r.Remaining, r.RetryAfter, r.ResetAfter, r.Delay)
	d.Results++
	d.Sum += h.Sum64()
	if r.Allowed {
		d.Admitted++
	}
}

func (d *digest) merge(more digest) {
	d.Results, d.Admitted, d.Sum = d.Results+more.Results, d.Admitted+more.Admitted, d.Sum+more.Sum
}

// A tripReader notes what each script was asked, and when.
type tripReader struct {
	rl.Client
	mu    sync.Mutex
	trips []trip
}

func (c *tripReader) Process(ctx context.Context, cmd redis.Cmder) error {
	err := c.Client.Process(ctx, cmd)
	script, ok := cmd.(interface{ Val() []int64 })
	if !ok || err != nil {
		return err
	}
	reply := script.Val()
	t := trip{Now: reply[len(reply)-1], Entries: entriesOf(cmd.Args())}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.trips = append(c.trips, t)
	return nil
}

// entriesOf reads the arguments of a script of one rule: a Redis key for each request, and at the end its cost and count.
func entriesOf(args []any) (entries []entry) {
	n := args[2].(int)
	for i := range n {
		_, id, _ := strings.Cut(*args[3+i].(*string), "{")
		e := entry{Cost: *args[len(args)-2*(n-i)].(*int64), Count: *args[len(args)-2*(n-i)+1].(*int64)}
		if _, err := fmt.Sscanf(id, "%d}", &e.Key); err != nil {
			panic(fmt.Sprintf("the key of request %d in %v: %v", i, args, err))
		}
		entries = append(entries, e)
	}
	return entries
}

var fire = processes.Register("fire", func(ctx context.Context, in barrage, begin func()) ([]told, error) {
	rdb := redis.NewClient(&redis.Options{Addr: in.Addr})
	defer rdb.Close()
	algorithms := limitertest.Algorithms()
	all, readers, limiters := make([]told, len(algorithms)), make([]*tripReader, len(algorithms)), make([]*rl.Limiter, len(algorithms))
	for i, a := range algorithms {
		readers[i] = &tripReader{Client: rdb}
		l, err := rl.New(readers[i], in.Name+a.Name, a.Make(barrageRate, barragePer))
		if err != nil {
			return nil, err
		}
		l.Timeout, limiters[i] = patience, l
	}
	begin()
	if err := in.shoot(ctx, limiters, all); err != nil {
		return nil, err
	}
	for i, r := range readers {
		all[i].Trips = r.trips
	}
	return all, nil
})

func (b barrage) shoot(ctx context.Context, limiters []*rl.Limiter, all []told) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var left atomic.Int64
	left.Store(int64(b.Calls))
	var mu sync.Mutex
	var running sync.WaitGroup
	for range goroutines {
		running.Go(func() {
			for left.Add(-1) >= 0 && ctx.Err() == nil {
				i, key := rand.IntN(len(limiters)), rand.IntN(barrageKeys)
				r, err := limiters[i].AllowN(ctx, fmt.Sprint(key), costOf(key))
				if err != nil {
					cancel(err)
					return
				}
				mu.Lock()
				all[i].Keys[key].add(r)
				mu.Unlock()
			}
		})
	}
	running.Wait()
	return context.Cause(ctx)
}

// costOf gives all requests of a key one cost, so that those that share a trip can be told apart by their answers alone.
func costOf(key int) int { return key % 4 }

// Four processes of 64 goroutines ask shared keys of all algorithms. Each script's requests are then decided once more
// by the model, one by one and in the order of the server's clock: callers must have been told the same, to the
// microsecond.
func TestUnderFireAllDecideAsTheModel(t *testing.T) {
	onEachShared(t, func(t *testing.T, rdb *redis.Client) {
		in := barrage{Addr: rdb.Options().Addr, Name: newName(), Calls: *fireCalls / len(servers.Kinds()) / instances}
		start := time.Now()
		outputs := fire.Run(t, 10*time.Minute, slices.Repeat([]barrage{in}, instances)...)
		took := time.Since(start)
		decisions, admitted, trips := 0, 0, 0
		for i, a := range limitertest.Algorithms() {
			var sum told
			for _, out := range outputs {
				sum.Trips = append(sum.Trips, out[i].Trips...)
				for key := range out[i].Keys {
					sum.Keys[key].merge(out[i].Keys[key])
				}
			}
			for _, k := range sum.Keys {
				decisions, admitted = decisions+k.Results, admitted+k.Admitted
			}
			trips += len(sum.Trips)
			sum.replay(t, a)
			wantExpiry(t, rdb, in.Name+a.Name)
		}
		t.Logf("%d decisions of %d × %d goroutines agree, %d admitted, in %d trips and %v",
			decisions, instances, goroutines, admitted, trips, took.Round(time.Millisecond))
		if decisions != in.Calls*instances || admitted == 0 || admitted == decisions {
			t.Errorf("%d decisions, want %d, and some of them refusals", decisions, in.Calls*instances)
		}
	})
}

// replay lets the model decide, in a bubble whose clock it sets to what the server's was.
func (all told) replay(t *testing.T, a limitertest.Algorithm) {
	t.Helper()
	slices.SortStableFunc(all.Trips, func(a, b trip) int { return cmp.Compare(a.Now, b.Now) })
	synctest.Test(t, func(t *testing.T) {
		model, err := rl.NewMemory("model", a.Make(barrageRate, barragePer))
		if err != nil {
			t.Fatal(err)
		}
		var want [barrageKeys]digest
		for _, trip := range all.Trips {
			time.Sleep(time.Until(time.UnixMicro(trip.Now)))
			for _, e := range trip.Entries {
				for range e.Count {
					r, err := model.AllowN(t.Context(), fmt.Sprint(e.Key), int(e.Cost))
					if err != nil {
						t.Fatal(err)
					}
					want[e.Key].add(r)
				}
			}
		}
		for key, got := range all.Keys {
			if got != want[key] {
				t.Errorf("%s, key %d: callers were told %+v, the model says %+v", a.Name, key, got, want[key])
			}
		}
	})
}
