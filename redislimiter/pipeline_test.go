package redislimiter_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// shards are a Ring of two servers in virtual time, and a look at what is sent to them: each script or pipeline of them is
// a trip, which takes 5 ms.
type shards struct {
	*redis.Ring
	servers [2]*miniredis.Miniredis
	roads   [2]*road

	mu        sync.Mutex
	trips     map[string]int // of the shard at an address
	pipelines int            // before they are taken apart by shards

	well   atomic.Bool                   // forget about the two below
	before func(addr string)             // a trip to this shard
	after  func(cmds []redis.Cmder) bool // errors that it sets stand
}

func newShards(t *testing.T) *shards {
	t.Helper()
	s := &shards{trips: map[string]int{}}
	for i := range s.servers {
		server, _ := limitertest.Redis(t)
		s.servers[i] = server
		s.roads[i] = &road{to: func() (net.Conn, error) { return limitertest.Dial(server) }}
	}
	s.Ring = redis.NewRing(&redis.RingOptions{
		Addrs: map[string]string{"one": "127.0.0.1:1", "two": "127.0.0.1:2"},
		Dialer: func(ctx context.Context, network, addr string) (net.Conn, error) {
			return s.roads[addr[len(addr)-1]-'1'].dial(ctx, network, addr)
		},
		HeartbeatFn: func(context.Context, *redis.Client) bool { return true }, // a shard that is down keeps its keys
	})
	t.Cleanup(func() { s.Close() })
	s.AddHook(counted{s})
	for _, id := range []string{"0", "1", "2", "3", "4", "5"} {
		if node := s.nodeOf(t, id); s.trips[node.Options().Addr] == 0 {
			s.trips[node.Options().Addr] = 1
			node.AddHook(watchedShard{s, node.Options().Addr})
		}
	}
	return s
}

func (s *shards) limiter(t *testing.T, limits ...rl.Limit) *rl.Limiter {
	t.Helper()
	l, err := rl.New(s, "test", limits...)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		allow(t, l, fmt.Sprint("warm", i), 1, true) // on both shards
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.trips)
	s.pipelines = 0
	return l
}

func (s *shards) nodeOf(t *testing.T, id string) *redis.Client {
	t.Helper()
	node, err := s.GetShardClientForKey(id)
	if err != nil {
		t.Fatal(err)
	}
	return node
}

func (s *shards) addrOf(t *testing.T, id string) string { return s.nodeOf(t, id).Options().Addr }

// counted counts pipelines.
type counted struct{ *shards }

func (s counted) DialHook(next redis.DialHook) redis.DialHook          { return next }
func (s counted) ProcessHook(next redis.ProcessHook) redis.ProcessHook { return next }

func (s counted) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		s.mu.Lock()
		s.pipelines++
		s.mu.Unlock()
		return next(ctx, cmds)
	}
}

type watchedShard struct {
	*shards
	addr string
}

func (s watchedShard) DialHook(next redis.DialHook) redis.DialHook { return next }

func (s watchedShard) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		return s.trip([]redis.Cmder{cmd}, func() error { return next(ctx, cmd) })
	}
}

func (s watchedShard) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		if cmds[0].Name() == "evalsha" { // and not what greets the server
			s.mu.Lock()
			s.pipelines--
			s.mu.Unlock()
		}
		return s.trip(cmds, func() error { return next(ctx, cmds) })
	}
}

func (s watchedShard) trip(cmds []redis.Cmder, next func() error) error {
	if name := cmds[0].Name(); name != "evalsha" && name != "eval" {
		return next()
	}
	s.mu.Lock()
	s.trips[s.addr]++
	s.mu.Unlock()
	well := s.well.Load()
	if s.before != nil && !well {
		s.before(s.addr)
	}
	time.Sleep(5 * time.Millisecond)
	err := next()
	if s.after != nil && !well && s.after(cmds) {
		return cmds[len(cmds)-1].Err()
	}
	return err
}

// Calls whose keys live on one node share trips, and those of different nodes do not.
func TestCallsOfOneNodeShareTrips(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShards(t)
		l := s.limiter(t, rl.TokenBucket(1, time.Hour, 8), rl.SlidingWindowLog(9, time.Hour))
		const keys = 50
		var admitted [keys]atomic.Int64
		var wg sync.WaitGroup
		start := time.Now()
		for i := range keys * 10 {
			wg.Go(func() {
				if allowAny(t, l, fmt.Sprint(i%keys), 1).Allowed {
					admitted[i%keys].Add(1)
				}
			})
		}
		wg.Wait()
		for addr, n := range s.trips { // as on one node: two with a call each, and then two with the rest
			if n > 5 {
				t.Errorf("%s: %d trips", addr, n)
			}
		}
		if took := time.Since(start); len(s.trips) != 2 || took > 15*time.Millisecond {
			t.Errorf("%v trips, %v", s.trips, took)
		}
		if s.pipelines != 0 {
			t.Errorf("%d pipelines had keys of more than one node", -s.pipelines)
		}
		for i := range admitted {
			if n := admitted[i].Load(); n != 8 {
				t.Errorf("key %d: admitted %d of 8", i, n)
			}
		}
	})
}

// Different costs, looks and partial grants of several keys in one pipeline.
func TestMixedCallsInOnePipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newShards(t).limiter(t, rl.SlidingWindowLog(100, time.Hour))
		const keys = 6
		var units [keys]atomic.Int64
		var wg sync.WaitGroup
		for i := range 120 * keys {
			key := fmt.Sprint(i % keys)
			of := &units[i%keys]
			wg.Go(func() {
				switch i / keys % 4 {
				case 0, 1:
					n := 1 + 6*(i/keys%2)
					if allowAny(t, l, key, n).Allowed {
						of.Add(int64(n))
					}
				case 2:
					allowAny(t, l, key, 0)
				case 3:
					n, _, err := l.AllowAtMost(t.Context(), key, 3)
					if err != nil {
						t.Error(err)
					}
					of.Add(int64(n))
				}
			})
		}
		wg.Wait()
		for i := range units {
			if left := allowAny(t, l, fmt.Sprint(i), 0).Remaining; left != 0 || units[i].Load() != 100 {
				t.Errorf("key %d: granted %d units, %d are left of 100", i, units[i].Load(), left)
			}
		}
	})
}

// each has many callers ask for as many keys, a few of each, at once.
func (s *shards) each(t *testing.T, l *rl.Limiter, n int, then func(id string, r rl.Result, err error)) {
	t.Helper()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			id := fmt.Sprint(i % (n / 3))
			r, err := l.Allow(t.Context(), id)
			mu.Lock()
			defer mu.Unlock()
			then(id, r, err)
		})
	}
	wg.Wait()
}

// What becomes of one key in a pipeline concerns no other.
func TestOneBadKeyInAPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShards(t)
		l := s.limiter(t, rl.TokenBucket(1, time.Hour, 5))
		if err := s.LPush(t.Context(), "rl:test:h:{7}", "x").Err(); err != nil {
			t.Fatal(err)
		}
		s.each(t, l, 120, func(id string, r rl.Result, err error) {
			if bad := id == "7"; bad != errors.Is(err, rl.ErrMisconfigured) || !bad && !r.Allowed {
				t.Errorf("key %s: %+v, %v", id, r, err)
			}
		})
		for i := range 40 {
			if i != 7 && allow(t, l, fmt.Sprint(i), 0, true).Remaining != 2 {
				t.Errorf("key %d was not charged once for each call", i)
			}
		}
	})
}

// Commands of a pipeline that proved to have had no effect are sent again, and those beside them are not.
func TestPipelineIsRepaired(t *testing.T) {
	for _, answer := range []string{"NOSCRIPT", "LOADING Redis is loading", "READONLY You can't write", "TRYAGAIN Multiple keys", "max number of clients reached"} {
		t.Run(answer, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShards(t)
				l := s.limiter(t, rl.TokenBucket(1, time.Hour, 5))
				l.Timeout = time.Second
				failed := 0
				if answer == "NOSCRIPT" {
					for _, server := range s.servers {
						client := redis.NewClient(&redis.Options{
							Addr: "127.0.0.1:6379", Dialer: func(context.Context, string, string) (net.Conn, error) { return server.Dial() },
						})
						if err := client.ScriptFlush(t.Context()).Err(); err != nil {
							t.Fatal(err)
						}
						client.Close()
					}
				} else {
					s.before = func(string) {
						s.mu.Lock()
						defer s.mu.Unlock()
						failed++
						for _, server := range s.servers {
							if server.SetError(answer); failed > 6 {
								server.SetError("")
							}
						}
					}
				}
				s.each(t, l, 120, func(id string, r rl.Result, err error) {
					if err != nil || !r.Allowed {
						t.Errorf("key %s: %+v, %v", id, r, err)
					}
				})
				for i := range 40 {
					if left := allow(t, l, fmt.Sprint(i), 0, true).Remaining; left != 2 {
						t.Errorf("key %d: %d are left of 5 after 3 charges", i, left)
					}
				}
			})
		})
	}
}

// A pipeline whose replies are lost is not sent again: each call was charged once, and is told that it may have been.
func TestLostRepliesOfAPipeline(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShards(t)
		l := s.limiter(t, rl.TokenBucket(1, time.Hour, 5))
		s.after = func(cmds []redis.Cmder) bool {
			for _, cmd := range cmds[len(cmds)/2:] { // the connection broke in the middle
				cmd.SetErr(io.EOF)
			}
			return true
		}
		uncertain := 0
		s.each(t, l, 120, func(id string, r rl.Result, err error) {
			switch {
			case errors.Is(err, rl.ErrUncertain):
				uncertain++
			case err != nil || !r.Allowed:
				t.Errorf("key %s: %+v, %v", id, r, err)
			}
		})
		s.well.Store(true)
		if uncertain < 40 || uncertain > 80 {
			t.Errorf("%d of 120 calls were uncertain", uncertain)
		}
		for i := range 40 {
			if left := allow(t, l, fmt.Sprint(i), 0, true).Remaining; left != 2 {
				t.Errorf("key %d: %d are left of 5 after 3 charges", i, left)
			}
		}
	})
}

// Calls of a node that hangs leave at their deadlines, and those of another node do not notice.
func TestHungNodeHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShards(t)
		l := s.limiter(t, rl.TokenBucket(1, time.Hour, 5))
		release := make(chan struct{})
		hung := s.addrOf(t, "0")
		s.before = func(addr string) {
			if addr == hung {
				<-release
			}
		}
		start := time.Now()
		s.each(t, l, 300, func(id string, r rl.Result, err error) {
			took := time.Since(start)
			if s.addrOf(t, id) == hung {
				if !errors.Is(err, rl.ErrUnavailable) || took != rl.DefaultTimeout {
					t.Errorf("key %s of the hung node: %+v, %v after %v", id, r, err, took)
				}
			} else if err != nil || took > 20*time.Millisecond {
				t.Errorf("key %s: %v after %v", id, err, took)
			}
		})
		close(release)
		synctest.Wait()
		time.Sleep(time.Second)
		s.well.Store(true)
		// What had not been written when its callers left is not written any more.
		for i := range 100 {
			id := fmt.Sprint(i)
			if left, want := allow(t, l, id, 0, true).Remaining, map[bool]int{true: 5, false: 2}[s.addrOf(t, id) == hung]; left != want {
				t.Errorf("key %s has %d left, want %d", id, left, want)
			}
		}
	})
}

// A node that cannot be reached is dialled five times a second, and decides again at once when it is back.
func TestDeadNodeIsDialledFewTimes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newShards(t)
		l := s.limiter(t, rl.TokenBucket(1000, time.Second, 1000))
		down := s.roads[s.addrOf(t, "k")[len("127.0.0.1:")]-'1']
		down.set(true)
		limiters := []*rl.Limiter{l, l}
		ask(t, limiters, 4*time.Second)
		down.dialled()
		answered, failed := ask(t, limiters, 4*time.Second)
		if n := down.dialled(); n > 21 || n < 4 {
			t.Errorf("dialled %d times in 4 s", n)
		}
		if answered > 0 || failed < 100 {
			t.Errorf("%d calls answered, %d failed", answered, failed)
		}
		down.set(false)
		ask(t, limiters, 250*time.Millisecond)
		if _, failed := ask(t, limiters, 100*time.Millisecond); failed > 0 {
			t.Errorf("%d calls failed 250 ms after the node's return", failed)
		}
		time.Sleep(5 * time.Second) // what go-redis has begun ends
	})
}

// A server that takes keys of one slot only, such as a proxy to a cluster, gets pipelines once it has said so.
func TestServerOfOneSlotGetsPipelines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, _ := limitertest.Redis(t)
		client := redis.NewClient(&redis.Options{
			Addr: "127.0.0.1:6379", PoolSize: 4096,
			Dialer: func(context.Context, string, string) (net.Conn, error) { return limitertest.Dial(server) },
		})
		t.Cleanup(func() { client.Close() })
		p := &oneSlot{}
		client.AddHook(p)
		l, err := rl.New(client, "test", rl.TokenBucket(1, time.Hour, 8))
		if err != nil {
			t.Fatal(err)
		}
		s := &shards{}
		allow(t, l, "warm", 1, true)
		for round := range 2 {
			p.alone.Store(0)
			s.each(t, l, 120, func(id string, r rl.Result, err error) {
				if err != nil || !r.Allowed {
					t.Errorf("key %s: %+v, %v", id, r, err)
				}
			})
			if n := p.alone.Load(); round > 0 && (n > 5 || p.piped.Load() == 0) {
				t.Errorf("%d scripts outside of %d pipelines", n, p.piped.Load())
			}
		}
		for i := range 40 {
			if left := allow(t, l, fmt.Sprint(i), 0, true).Remaining; left != 2 {
				t.Errorf("key %d: %d are left of 8 after 6 charges", i, left)
			}
		}
	})
}

type oneSlot struct{ alone, piped atomic.Int64 }

func (p *oneSlot) DialHook(next redis.DialHook) redis.DialHook { return next }

func (p *oneSlot) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		time.Sleep(5 * time.Millisecond)
		p.alone.Add(1)
		if args := cmd.Args(); cmd.Name() == "evalsha" && args[2] != 1 {
			cmd.SetErr(serverError("CROSSSLOT Keys in request don't hash to the same slot"))
			return cmd.Err()
		}
		return next(ctx, cmd)
	}
}

func (p *oneSlot) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error {
		time.Sleep(5 * time.Millisecond)
		p.piped.Add(1)
		return next(ctx, cmds)
	}
}
