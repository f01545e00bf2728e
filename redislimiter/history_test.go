package redislimiter_test

import (
	"context"
	"flag"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

var histories = flag.Int("histories", 15, "how many random histories to compare with the model")

// Both limiters have all of these.
type operations interface {
	rl.Allower
	AllowAtMost(ctx context.Context, key string, n int) (int, rl.Result, error)
	Refund(ctx context.Context, key string, n int) error
	Reset(ctx context.Context, key string) error
}

// operate does one random thing.
func operate(t *testing.T, random *rand.Rand, l operations, n int, last *rl.Result) (granted int, r rl.Result) {
	t.Helper()
	var err error
	switch random.IntN(12) {
	case 0:
		granted, r, err = l.AllowAtMost(t.Context(), "k", n*2)
	case 1:
		err = l.Refund(t.Context(), "k", n)
	case 2:
		if last.Allowed && n > 0 {
			err = last.Refund(t.Context(), min(n, 1))
		}
	case 3:
		if random.IntN(10) == 0 {
			err = l.Reset(t.Context(), "k")
		}
	default:
		r, err = l.AllowN(t.Context(), "k", n)
	}
	if err != nil {
		t.Fatal(err)
	}
	if r.Limits == nil { // no decision was made: see what is left
		r, err = l.AllowN(t.Context(), "k", 0)
		if err != nil {
			t.Fatal(err)
		}
	}
	return granted, r
}

// Random histories through the Lua and through the model, which Memory is,
// must agree in everything, at every microsecond.
func TestRedisDecidesAsTheModel(t *testing.T) {
	for seed := range uint64(*histories) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			limits := limitertest.RandomLimits(random)
			inRedis, inMemory := newLimiter(t, limits...).(operations), newMemory(t, limits...).(operations)
			history := limitertest.NewHistory(random, limits)
			var got, want rl.Result
			var granted, wanted int
			for step := range 80 {
				pause, n := history.Next()
				time.Sleep(pause)
				choice := random.Uint64()
				wanted, want = operate(t, rand.New(rand.NewPCG(choice, 2)), inMemory, n, &want)
				granted, got = operate(t, rand.New(rand.NewPCG(choice, 2)), inRedis, n, &got)
				if granted != wanted || !limitertest.SameDecision(got, want) {
					t.Fatalf("seed %d step %d, n = %d: %v\nby Redis:     %d, %+v\nby the model: %d, %+v", seed, step, n, limits, granted, got, wanted, want)
				}
				history.Saw(got)
			}
		})
	}
}

// A server never holds a key of ours that would stay for ever, and one that
// lost its expiry gets it back.
func TestEveryKeyExpires(t *testing.T) {
	for _, a := range limitertest.Algorithms() {
		synctest.Test(t, func(t *testing.T) {
			server, client := limitertest.Redis(t)
			l, err := rl.New(client, "test", a.Make(3, 10*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			for i := range 20 {
				if _, err := l.AllowN(context.Background(), "k", i%4); err != nil {
					t.Fatal(err)
				}
				for _, key := range server.Keys() {
					if server.TTL(key) <= 0 {
						t.Fatalf("%s: key %q without expiry", a.Name, key)
					}
				}
				time.Sleep(1700 * time.Millisecond)
			}
			keys := server.Keys()
			time.Sleep(31 * time.Second)
			if left := server.Keys(); len(keys) == 0 || len(left) != 0 {
				t.Fatalf("%s: keys %q, and %q long after", a.Name, keys, left)
			}
		})
	}
}

func TestKeyWithoutExpiryHeals(t *testing.T) {
	for _, a := range limitertest.Algorithms() {
		synctest.Test(t, func(t *testing.T) {
			_, client := limitertest.Redis(t)
			l, err := rl.New(client, "test", a.Make(3, 10*time.Second))
			if err != nil {
				t.Fatal(err)
			}
			allow(t, l, "k", 3, true)
			keys, err := client.Keys(t.Context(), "*").Result()
			if err != nil || len(keys) != 1 {
				t.Fatal(keys, err)
			}
			client.Persist(t.Context(), keys[0])
			time.Sleep(20 * time.Second)
			allow(t, l, "k", 3, true)
			if ttl := client.PTTL(t.Context(), keys[0]).Val(); ttl <= 0 {
				t.Fatalf("%s: still without expiry: %v", a.Name, ttl)
			}
		})
	}
}

func allow(t *testing.T, l rl.Allower, key string, n int, want bool) rl.Result {
	t.Helper()
	r, err := l.AllowN(t.Context(), key, n)
	if err != nil {
		t.Fatal(err)
	}
	if r.Allowed != want {
		t.Fatalf("AllowN(%d): allowed %v, want %v: %+v", n, r.Allowed, want, r)
	}
	return r
}
