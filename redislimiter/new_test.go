package redislimiter_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// Every wrong argument is an error that names it, before any trip.
func TestBadArguments(t *testing.T) {
	good := rl.TokenBucket(1, time.Second, 1)
	client := redis.NewClient(&redis.Options{Addr: "127.0.0.1:1"})
	defer client.Close()
	for _, test := range []struct {
		want   string // words of the error
		name   string
		limits []rl.Limit
	}{
		{"name is empty", "", []rl.Limit{good}},
		{"name has 65 bytes", strings.Repeat("x", 65), []rl.Limit{good}},
		{"name \"a:b\"", "a:b", []rl.Limit{good}},
		{"name \"a{b\"", "a{b", []rl.Limit{good}},
		{"name \"a b\"", "a b", []rl.Limit{good}},
		{"name \"ä\"", "ä", []rl.Limit{good}},
		{"limits: none", "x", nil},
		{"limits: 9 given", "x", []rl.Limit{good, good, good, good, good, good, good, good, good}},
		{"limits[1]: the zero Limit", "x", []rl.Limit{good, {}}},
		{"limits[0] (token bucket): rate is 0", "x", []rl.Limit{rl.TokenBucket(0, time.Second, 1)}},
		{"rate is -1", "x", []rl.Limit{rl.TokenBucket(-1, time.Second, 1)}},
		{"per is 0s", "x", []rl.Limit{rl.TokenBucket(1, 0, 1)}},
		{"per is -1s", "x", []rl.Limit{rl.TokenBucket(1, -time.Second, 1)}},
		{"the smallest is 1µs", "x", []rl.Limit{rl.TokenBucket(1, 1500*time.Nanosecond, 1)}},
		{"at least 1µs", "x", []rl.Limit{rl.TokenBucket(1, time.Nanosecond, 1)}},
		{"at most ten years", "x", []rl.Limit{rl.TokenBucket(1, 11*365*24*time.Hour, 1)}},
		{"burst is 0", "x", []rl.Limit{rl.TokenBucket(1, time.Second, 0)}},
		{"burst is 1000000, must be at most", "x", []rl.Limit{rl.TokenBucket(1, 365*24*time.Hour, 1_000_000)}},
		{"limits[0] (sliding window log): rate is 0", "x", []rl.Limit{rl.SlidingWindowLog(0, time.Second)}},
		{"rate is 1000001", "x", []rl.Limit{rl.SlidingWindowLog(1_000_001, time.Second)}},
		{"per is 0s", "x", []rl.Limit{rl.SlidingWindowLog(1, 0)}},
		{"rate is 0", "x", []rl.Limit{good.Share(0)}},
	} {
		_, errNew := rl.New(client, test.name, test.limits...)
		_, errMemory := rl.NewMemory(test.name, test.limits...)
		for _, err := range []error{errNew, errMemory} {
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasPrefix(err.Error(), "redislimiter: ") {
				t.Errorf("got %v, want %s", err, test.want)
			}
		}
	}
	for _, none := range []rl.Client{nil, (*redis.Client)(nil), (*redis.ClusterClient)(nil)} {
		if _, err := rl.New(none, "x", good); err == nil || !strings.Contains(err.Error(), "rdb is nil") {
			t.Errorf("no client: %v", err)
		}
	}
}

func TestNegativeTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, l := flakyLimiter(t)
		l.Timeout = -1
		if _, err := l.Allow(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "Timeout") {
			t.Fatal(err)
		}
	})
}

func TestShare(t *testing.T) {
	for _, test := range []struct{ limit, want rl.Limit }{
		{rl.TokenBucket(10, time.Second, 7), rl.TokenBucket(3, time.Second, 2)},
		{rl.TokenBucket(3, time.Second, 3), rl.TokenBucket(1, time.Second, 1)},
		{rl.TokenBucket(2, time.Second, 1), rl.TokenBucket(1, 1500*time.Millisecond, 1)},
		{rl.TokenBucket(1, time.Microsecond, 1), rl.TokenBucket(1, 3*time.Microsecond, 1)},
		{rl.SlidingWindowLog(10, time.Minute), rl.SlidingWindowLog(3, time.Minute)},
		{rl.SlidingWindowLog(2, time.Minute), rl.SlidingWindowLog(1, 90*time.Second)},
	} {
		if got := test.limit.Share(3); got != test.want {
			t.Errorf("(%v).Share(3) = %v, want %v", test.limit, got, test.want)
		}
		if got := test.limit.Share(1); got != test.limit {
			t.Errorf("(%v).Share(1) = %v", test.limit, got)
		}
	}
}

func TestLimitTellsItsParameters(t *testing.T) {
	for _, test := range []struct {
		limit     rl.Limit
		algorithm string
		rate      int
		per       time.Duration
		burst     int
		text      string
	}{
		{rl.TokenBucket(10, time.Second, 20), "token bucket", 10, time.Second, 20, "token bucket of 20, 10 per 1s"},
		{rl.SlidingWindowLog(5, time.Minute), "sliding window log", 5, time.Minute, 5, "sliding window log, 5 per 1m0s"},
		{rl.Limit{}, "", 0, 0, 0, "no limit"},
	} {
		l := test.limit
		if l.Algorithm() != test.algorithm || l.Rate() != test.rate || l.Per() != test.per || l.Burst() != test.burst || l.String() != test.text {
			t.Errorf("%v: %s, %d per %v, burst %d", l, l.Algorithm(), l.Rate(), l.Per(), l.Burst())
		}
	}
}
