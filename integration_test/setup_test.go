// Package integration_test holds the library to its promises on real servers: what it admits, what it charges and how
// long a call takes, while everything works and while it does not.
//
// The tests are about the library as users have it: its public API on a go-redis client with default options, unless a
// test says otherwise. What can be had from a server in virtual time is tested beside the library itself.
package integration_test

import (
	"context"
	"crypto/rand"
	"flag"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/processes"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // it writes a line for each dial that fails, and here thousands are meant to
	processes.Serve()
	if length := os.Getenv("SOAK"); length != "" {
		if err := flag.Set("soak", length); err != nil {
			fmt.Fprintln(os.Stderr, "SOAK:", err)
			os.Exit(2)
		}
	}
	os.Exit(servers.Main(m))
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}

// patience is the Timeout of limiters in tests that are not about time. Many goroutines on a slow machine wait longer
// for their turn than a caller would.
const patience = 30 * time.Second

// onEach runs a test once for each kind of server.
func onEach(t *testing.T, test func(t *testing.T, kind servers.Kind)) {
	for _, kind := range servers.Kinds() {
		t.Run(string(kind), func(t *testing.T) { test(t, kind) })
	}
}

// sideBySide starts one of each kind, which takes little more time than one.
func sideBySide[T any](t *testing.T, start func(testing.TB, servers.Kind, ...string) T) map[servers.Kind]T {
	t.Helper()
	var mu sync.Mutex
	each := map[servers.Kind]T{}
	var starting sync.WaitGroup
	for _, kind := range servers.Kinds() {
		starting.Go(func() {
			started := start(t, kind)
			mu.Lock()
			defer mu.Unlock()
			each[kind] = started
		})
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow() // which start has ended only its own goroutine by
	}
	return each
}

// onEachShared does so on the servers that all tests share, with a client.
func onEachShared(t *testing.T, test func(t *testing.T, rdb *redis.Client)) {
	onEach(t, func(t *testing.T, kind servers.Kind) { test(t, dial(t, servers.Shared(t, kind))) })
}

// eachAlgorithm runs a test once for each algorithm that the library has.
func eachAlgorithm(t *testing.T, test func(t *testing.T, a limitertest.Algorithm)) {
	for _, a := range limitertest.Algorithms() {
		t.Run(a.Name, func(t *testing.T) { test(t, a) })
	}
}

// dial makes a client as most users do, with go-redis's defaults: it sends again what failed, and does not look at
// contexts.
func dial(tb testing.TB, addr string) *redis.Client {
	tb.Helper()
	return dialWith(tb, &redis.Options{Addr: addr})
}

func dialWith(tb testing.TB, options *redis.Options) *redis.Client {
	tb.Helper()
	rdb := redis.NewClient(options)
	tb.Cleanup(func() { rdb.Close() })
	return rdb
}

// newName returns the name of a limiter that no other test and no other run uses.
func newName() string { return "test-" + rand.Text() }

// newLimiter makes a limiter that is patient and has a name of its own.
func newLimiter(tb testing.TB, rdb rl.Client, limits ...rl.Limit) *rl.Limiter {
	tb.Helper()
	return named(tb, rdb, newName(), limits...)
}

func named(tb testing.TB, rdb rl.Client, name string, limits ...rl.Limit) *rl.Limiter {
	tb.Helper()
	l, err := rl.New(rdb, name, limits...)
	if err != nil {
		tb.Fatal(err)
	}
	l.Timeout = patience
	return l
}

// lasting makes a limit of n that gives nothing back while a test runs, so that the units admitted can be counted.
func lasting(tb testing.TB, a limitertest.Algorithm, n int) rl.Limit {
	tb.Helper()
	limit, err := lastingLimit(a, n)
	if err != nil {
		tb.Fatal(err)
	}
	return limit
}

func lastingLimit(a limitertest.Algorithm, n int) (limit rl.Limit, err error) {
	const day = 24 * time.Hour
	for _, per := range []time.Duration{365 * day, 30 * day, day} { // not every algorithm can count that much for a year
		limit = a.Make(n, per)
		if _, err = rl.NewMemory("probe", limit); err == nil {
			return limit, nil
		}
	}
	return limit, fmt.Errorf("%s cannot count %d units in a day: %w", a.Name, n, err)
}

// everyAlgorithm makes one limit of each algorithm. A limiter that has all of them shows a wrong charge of any of them.
func everyAlgorithm(tb testing.TB, n int) []rl.Limit {
	tb.Helper()
	var limits []rl.Limit
	for _, a := range limitertest.Algorithms() {
		limits = append(limits, lasting(tb, a, n))
	}
	return limits
}

// remaining looks at a key.
func remaining(tb testing.TB, l *rl.Limiter, key string) int {
	tb.Helper()
	r, err := l.AllowN(tb.Context(), key, 0)
	if err != nil {
		tb.Fatalf("look: %v", err)
	}
	return r.Remaining
}

// allow asks for n units, which have to be answered as wanted.
func allow(tb testing.TB, l rl.Allower, key string, n int, want bool) rl.Result {
	tb.Helper()
	r, err := l.AllowN(tb.Context(), key, n)
	if err != nil {
		tb.Fatalf("AllowN(%d): %v", n, err)
	}
	if r.Allowed != want {
		tb.Fatalf("AllowN(%d): allowed %v, want %v: %+v", n, r.Allowed, want, r)
	}
	return r
}

// keysOf lists the keys that a limiter has on a server.
func keysOf(tb testing.TB, rdb *redis.Client, name string) []string {
	tb.Helper()
	var keys []string
	found := rdb.Scan(tb.Context(), 0, "rl:"+name+":*", 1000).Iterator()
	for found.Next(tb.Context()) {
		keys = append(keys, found.Val())
	}
	if err := found.Err(); err != nil {
		tb.Fatalf("scan: %v", err)
	}
	return keys
}

// wantExpiry fails the test if one of the limiter's keys would stay for ever. It returns how many there are.
func wantExpiry(tb testing.TB, rdb *redis.Client, name string) int {
	tb.Helper()
	keys := keysOf(tb, rdb, name)
	for _, key := range keys {
		// -2 is the answer for a key that has expired meanwhile.
		if ttl, err := rdb.PTTL(tb.Context(), key).Result(); err != nil || ttl == -1 {
			tb.Errorf("key %s: expiry %v, %v; want one", key, ttl, err)
		}
	}
	return len(keys)
}
