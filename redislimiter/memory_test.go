package redislimiter_test

import (
	"fmt"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

func TestMemoryHoldsNoMoreKeysThanItsBound(t *testing.T) {
	for _, bound := range []int{1, 10, 100, 1000} {
		m, err := rl.NewMemory("test", rl.TokenBucket(1, time.Hour, 5))
		if err != nil {
			t.Fatal(err)
		}
		m.MaxKeys = bound
		for i := range 3*bound + 100 {
			allow(t, m, fmt.Sprint("key", i), 1, true)
			if m.Len() > bound {
				t.Fatalf("%d keys held, bound %d", m.Len(), bound)
			}
		}
	}
}

// An attacker who rotates keys while Redis is away fills no more memory than the bound allows, here with ten times as many
// as the bound and as well with a million.
func TestRotatingKeysStayWithinTheBound(t *testing.T) {
	m, err := rl.NewMemory("test", rl.TokenBucket(1, time.Hour, 5))
	if err != nil {
		t.Fatal(err)
	}
	m.MaxKeys = 20_000
	p := &primary{}
	p.down.Store(true)
	f := &rl.Fallback{Primary: p, Secondary: m, OnError: func(error) {}}
	before := heap()
	for i := range 200_000 {
		if r, err := f.Allow(t.Context(), strconv.Itoa(i)); err != nil || !r.Allowed {
			t.Fatalf("key %d: %+v, %v", i, r, err)
		}
	}
	if m.Len() > m.MaxKeys || m.Len() < m.MaxKeys/2 {
		t.Fatalf("%d keys held", m.Len())
	}
	const most = 500 // bytes of a key
	if more := heap() - before; more > most*int64(m.MaxKeys) {
		t.Errorf("%d bytes more for at most %d keys", more, m.MaxKeys)
	}
	runtime.KeepAlive(f)
}

// heap is what is in use after a collection.
func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// Somebody at his limit cannot win a fresh start by sending other keys.
func TestRotatingKeysDoNotPushOutAKeyAtItsLimit(t *testing.T) {
	for _, limit := range []rl.Limit{rl.TokenBucket(1, time.Hour, 5), rl.SlidingWindowLog(5, time.Hour)} {
		m, err := rl.NewMemory("test", limit)
		if err != nil {
			t.Fatal(err)
		}
		m.MaxKeys = 1000
		allow(t, m, "victim", 5, true)
		for i := range 20_000 {
			allow(t, m, fmt.Sprint(i), 1, true)
		}
		allow(t, m, "victim", 1, false)
	}
}

func TestMemoryDropsWhatNoLongerMatters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m, err := rl.NewMemory("test", rl.SlidingWindowLog(5, time.Second))
		if err != nil {
			t.Fatal(err)
		}
		for second := range 20 {
			for i := range 1000 {
				allow(t, m, fmt.Sprint(second, "-", i), 1, true)
			}
			time.Sleep(time.Second)
		}
		if m.Len() > 3000 {
			t.Fatalf("%d keys held of 1000 that matter", m.Len())
		}
	})
}

func TestMemoryForgetsLooksAndRefusals(t *testing.T) {
	m, err := rl.NewMemory("test", rl.TokenBucket(1, time.Hour, 5))
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		allow(t, m, fmt.Sprint(i), 0, true)
	}
	if m.Len() != 0 {
		t.Fatalf("%d keys held after looking", m.Len())
	}
	m.MaxKeys = -1
	if _, err := m.Allow(t.Context(), "k"); err == nil || !strings.Contains(err.Error(), "MaxKeys") {
		t.Fatalf("MaxKeys -1: %v", err)
	}
}
