package integration_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A server whose memory is full still refuses and looks, since those write nothing. What it cannot charge is an error
// that says so, and leaves nothing behind.
func TestFullMemoryIsToldApart(t *testing.T) {
	onEach(t, func(t *testing.T, kind servers.Kind) {
		rdb := dial(t, servers.Start(t, kind, "--maxmemory-policy", "noeviction").Addr)
		eachAlgorithm(t, func(t *testing.T, a limitertest.Algorithm) {
			l := newLimiter(t, rdb, lasting(t, a, 5))
			allow(t, l, "some", 2, true)
			allow(t, l, "all", 5, true)
			maxMemory(t, rdb, "1") // less than an empty server has
			wantMisconfigured(t, l, "some")
			wantMisconfigured(t, l, "new")
			allow(t, l, "all", 1, false)
			allow(t, l, "some", 5, false)
			if left := remaining(t, l, "some"); left != 3 {
				t.Errorf("%d remaining, want 3: what failed was charged", left)
			}
			maxMemory(t, rdb, "0")
			if n := wantExpiry(t, rdb, l.Name()); n != 2 {
				t.Errorf("%d keys, want those of the two that were charged", n)
			}
			allow(t, l, "some", 3, true)
			allow(t, l, "new", 5, true)
		})
		t.Run("mixed", func(t *testing.T) { fullMixed(t, rdb) })
	})
}

func fullMixed(t *testing.T, rdb *redis.Client) {
	l := newLimiter(t, rdb, everyAlgorithm(t, 5)...)
	maxMemory(t, rdb, "1")
	wantMisconfigured(t, l, "new")
	maxMemory(t, rdb, "0")
	if n := wantExpiry(t, rdb, l.Name()); n != 0 {
		t.Errorf("%d keys, though nothing could be charged", n)
	}
	allow(t, l, "new", 5, true)
}

func maxMemory(t *testing.T, rdb *redis.Client, bytes string) {
	t.Helper()
	if err := rdb.ConfigSet(t.Context(), "maxmemory", bytes).Err(); err != nil {
		t.Fatal(err)
	}
}

// A key of another type under our name is an error to the policy, never an admission, and is not touched.
func TestKeyOfAnotherTypeIsToldApart(t *testing.T) {
	onEachShared(t, func(t *testing.T, rdb *redis.Client) {
		eachAlgorithm(t, func(t *testing.T, a limitertest.Algorithm) {
			l := newLimiter(t, rdb, lasting(t, a, 5))
			allow(t, l, "k", 1, true)
			keys := keysOf(t, rdb, l.Name())
			if len(keys) != 1 {
				t.Fatalf("keys %q", keys)
			}
			for name, make := range map[string]func() error{
				"list":   func() error { return rdb.RPush(t.Context(), keys[0], "x").Err() },
				"string": func() error { return rdb.Set(t.Context(), keys[0], "x", 0).Err() },
				"set":    func() error { return rdb.SAdd(t.Context(), keys[0], "x").Err() },
			} {
				if err := errors.Join(rdb.Del(t.Context(), keys[0]).Err(), make()); err != nil {
					t.Fatal(err)
				}
				before := rdb.Dump(t.Context(), keys[0]).Val()
				wantMisconfigured(t, l, "k")
				if after := rdb.Dump(t.Context(), keys[0]).Val(); after != before {
					t.Errorf("the %s was changed", name)
				}
			}
			if err := l.Reset(t.Context(), "k"); err != nil {
				t.Fatal(err)
			}
			allow(t, l, "k", 5, true)
		})
	})
}

// wantMisconfigured asks for one unit, which certainly must not be charged.
func wantMisconfigured(t *testing.T, l *rl.Limiter, key string) {
	t.Helper()
	r, err := l.Allow(t.Context(), key)
	if !errors.Is(err, rl.ErrMisconfigured) || errors.Is(err, rl.ErrUncertain) || r.Allowed {
		t.Errorf("allowed %v, %v; want a certain ErrMisconfigured", r.Allowed, err)
	}
}
