package redislimiter_test

import (
	"testing"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

func newLimiter(tb testing.TB, limits ...rl.Limit) rl.Allower {
	tb.Helper()
	_, client := limitertest.Redis(tb)
	l, err := rl.New(client, "test", limits...)
	if err != nil {
		tb.Fatal(err)
	}
	return l
}

func newMemory(tb testing.TB, limits ...rl.Limit) rl.Allower {
	tb.Helper()
	m, err := rl.NewMemory("test", limits...)
	if err != nil {
		tb.Fatal(err)
	}
	return m
}

func TestLimiterConforms(t *testing.T) { limitertest.Exercise(t, newLimiter) }

func TestMemoryConforms(t *testing.T) { limitertest.Exercise(t, newMemory) }

func TestFallbackConforms(t *testing.T) {
	limitertest.Exercise(t, func(tb testing.TB, limits ...rl.Limit) rl.Allower {
		return &rl.Fallback{Primary: newLimiter(tb, limits...), Secondary: rl.Closed}
	})
}
