package redislimiter_test

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// benchmarkClient is a client of the server at REDISLIMITER_BENCH_URL, or of
// an embedded one.
func benchmarkClient(b *testing.B) redis.UniversalClient {
	b.Helper()
	url := os.Getenv("REDISLIMITER_BENCH_URL")
	if url == "" {
		_, client := limitertest.Redis(b)
		return client
	}
	options, err := redis.ParseURL(url)
	if err != nil {
		b.Fatal(err)
	}
	client := redis.NewClient(options)
	b.Cleanup(func() { client.Close() })
	return client
}

// A lone call: its trips to Redis and its allocations.
func BenchmarkAllow(b *testing.B) {
	for _, a := range limitertest.Algorithms() {
		b.Run(a.Name, func(b *testing.B) {
			f := &flaky{UniversalClient: benchmarkClient(b)}
			l, err := rl.New(f, fmt.Sprintf("bench-%d", time.Now().UnixNano()), a.Make(1000, time.Second))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := l.Allow(b.Context(), "key"); err != nil {
				b.Fatal(err)
			}
			f.sent.Store(0)
			b.ReportAllocs()
			for b.Loop() {
				if _, err := l.Allow(b.Context(), "key"); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(f.sent.Load())/float64(b.N), "trips/op")
		})
	}
}

func BenchmarkMemory(b *testing.B) {
	for _, a := range limitertest.Algorithms() {
		b.Run(a.Name, func(b *testing.B) {
			m := newMemory(b, a.Make(1000, time.Second))
			keys := make([]string, 100_000)
			for i := range keys {
				keys[i] = fmt.Sprint("key", i)
				if _, err := m.AllowN(b.Context(), keys[i], 1); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportAllocs()
			b.RunParallel(func(pb *testing.PB) {
				for i := 0; pb.Next(); i++ {
					if _, err := m.AllowN(b.Context(), keys[i*7919%len(keys)], 1); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}
