package redislimiter_test

import (
	"context"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// Random histories through the Lua and through the model, which Memory is,
// must agree in everything, at every microsecond.
func TestRedisDecidesAsTheModel(t *testing.T) {
	for seed := range uint64(60) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 1))
			limits := limitertest.RandomLimits(random)
			inRedis, inMemory := newLimiter(t, limits...), newMemory(t, limits...)
			history := limitertest.NewHistory(random, limits)
			for step := range 60 {
				pause, n := history.Next()
				time.Sleep(pause)
				want, err := inMemory.AllowN(context.Background(), "k", n)
				if err != nil {
					t.Fatal(err)
				}
				got, err := inRedis.AllowN(context.Background(), "k", n)
				if err != nil {
					t.Fatal(err)
				}
				if !limitertest.SameDecision(got, want) {
					t.Fatalf("seed %d step %d: %v\nAllowN(%d) by Redis: %+v\nby the model:   %+v", seed, step, limits, n, got, want)
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
			time.Sleep(10 * time.Second)
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
