package integration_test

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// Costs are the most redis.calls that a decision may make.
type costs struct{ admit, refuse int }

// costsOf gives every algorithm of constant size what the token bucket has.
func costsOf(algorithm string) costs {
	if algorithm == "SlidingWindowLog" {
		return costs{admit: 5, refuse: 3}
	}
	return costs{admit: 4, refuse: 2}
}

// A decision costs as few redis.calls as documented, counted by the server.
func TestDecisionsCostFewCalls(t *testing.T) {
	onEachShared(t, func(t *testing.T, rdb *redis.Client) {
		eachAlgorithm(t, func(t *testing.T, a limitertest.Algorithm) {
			l := newLimiter(t, rdb, lasting(t, a, 5))
			allow(t, l, "other", 1, true) // the script is loaded
			most := costsOf(a.Name)
			var admitted, refused []string
			for range 5 { // the first one creates the key
				admitted = append(admitted, wantCalls(t, rdb, most.admit, func() { allow(t, l, "k", 1, true) }))
			}
			for _, n := range []int{0, 1, 5} {
				refused = append(refused, wantCalls(t, rdb, most.refuse, func() { allow(t, l, "k", n, false) }))
			}
			t.Logf("admit: %s; refuse: %s", slices.Compact(admitted), slices.Compact(refused))
			if n := wantExpiry(t, rdb, l.Name()); n != 2 {
				t.Errorf("%d keys for two ids", n)
			}
		})
	})
}

// A mix of all rules of constant size costs no more calls than one of them: they share a hash.
func TestMixedRulesCostAsOne(t *testing.T) {
	onEachShared(t, func(t *testing.T, rdb *redis.Client) {
		l := newLimiter(t, rdb, slices.DeleteFunc(everyAlgorithm(t, 5), func(l rl.Limit) bool {
			return l.Algorithm() == rl.SlidingWindowLog(1, 1).Algorithm()
		})...)
		allow(t, l, "other", 1, true)
		wantCalls(t, rdb, 4, func() { allow(t, l, "k", 5, true) })
		wantCalls(t, rdb, 2, func() { allow(t, l, "k", 1, false) })
		if n := wantExpiry(t, rdb, l.Name()); n != 2 {
			t.Errorf("%d keys for two ids", n)
		}
	})
}

// wantCalls counts the commands that scripts run while f does.
func wantCalls(t *testing.T, rdb *redis.Client, most int, f func()) string {
	t.Helper()
	calls := callsOf(t, rdb, f)
	sum := 0
	for _, n := range calls {
		sum += n
	}
	if sum > most || sum == 0 {
		t.Errorf("%d calls, want 1 to %d: %v", sum, most, calls)
	}
	return fmt.Sprint(sum, " ", slices.Sorted(maps.Keys(calls)))
}

// callsOf tells which commands scripts run while f does, and how often. Nobody else may use the server meanwhile.
func callsOf(t *testing.T, rdb *redis.Client, f func()) map[string]int {
	t.Helper()
	if err := rdb.ConfigResetStat(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	f()
	info, err := rdb.Info(t.Context(), "commandstats").Result()
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]int{}
	for line := range strings.Lines(info) {
		name, stats, ok := strings.Cut(strings.TrimPrefix(line, "cmdstat_"), ":calls=")
		if !ok || connectionCommand(name) {
			continue
		}
		count, _, _ := strings.Cut(stats, ",")
		if calls[name], err = strconv.Atoi(count); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
	}
	return calls
}

// connectionCommand tells what go-redis and this test send, rather than scripts.
func connectionCommand(name string) bool {
	name, _, _ = strings.Cut(name, "|")
	return slices.Contains([]string{"evalsha", "eval", "script", "config", "info", "hello", "client", "ping", "auth", "acl"}, name)
}

// What a key costs, for the documentation.
func TestMemoryOfAKey(t *testing.T) {
	const hits = 100
	onEachShared(t, func(t *testing.T, rdb *redis.Client) {
		eachAlgorithm(t, func(t *testing.T, a limitertest.Algorithm) {
			l := newLimiter(t, rdb, lasting(t, a, hits))
			for range hits {
				allow(t, l, "k", 1, true)
			}
			for _, key := range keysOf(t, rdb, l.Name()) {
				bytes, err := rdb.MemoryUsage(t.Context(), key, 0).Result()
				if err != nil {
					t.Fatal(err)
				}
				name := int64(len(key)) // longer here than in practice
				t.Logf("%d bytes after %d hits (the key's name has %d)", bytes, hits, name)
				if most := memoryOf(a.Name, hits); bytes-name > most {
					t.Errorf("%d bytes without the name, want at most %d", bytes-name, most)
				}
			}
		})
	})
}

// memoryOf is what the documentation of the limits says, without the key's name.
func memoryOf(algorithm string, hits int64) int64 {
	if algorithm == "SlidingWindowLog" {
		return 24*hits + 150
	}
	return 120
}
