package main

import (
	"fmt"
	"testing"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A quantile is never below the durations that it stands for, and at most a
// quarter above.
func TestQuantile(t *testing.T) {
	for d := time.Microsecond; d < 50*time.Second; d = d*3/2 + time.Microsecond {
		var h histogram
		h.add(d)
		if q := h.quantile(0.5); q < d || q > d*5/4+time.Microsecond {
			t.Errorf("one of %v: quantile %v", d, q)
		}
	}
	var h histogram
	for range 98 {
		h.add(time.Millisecond)
	}
	h.add(time.Second)
	h.add(time.Second)
	if p50, p99 := h.quantile(0.5), h.quantile(0.99); p50 > 2*time.Millisecond || p99 < time.Second {
		t.Errorf("p50 %v, p99 %v", p50, p99)
	}
	h.add(0)
	h.add(time.Hour)
	if got := h.minus(h).quantile(0.5); got != 0 {
		t.Errorf("quantile of nothing: %v", got)
	}
}

// A million clients take the memory of a few.
func TestMeterIsBounded(t *testing.T) {
	m := newMeter()
	for i := range 10 * maxClients {
		m.decided(fmt.Sprint(i), redislimiter.Result{Allowed: true, Source: redislimiter.SourceRedis}, 0)
	}
	s := m.snapshot()
	if len(s.Clients) != maxClients || s.Sources["redis"].Admitted != 10*maxClients {
		t.Errorf("%d clients, %+v", len(s.Clients), s.Sources)
	}
	if _, there := s.Clients[fmt.Sprint(10*maxClients-1)]; !there {
		t.Error("the last client is forgotten")
	}
}

// An instance that is started again counts from 0; the sums go on.
func TestWatchedGoesOnAfterRestart(t *testing.T) {
	var w watched
	at := func(boot string, admitted, byRedis int64) *snapshot {
		return &snapshot{
			Boot: boot, Sources: map[string]outcome{"redis": {Admitted: admitted}},
			Clients: map[string]clientStat{"a": {ByRedis: byRedis}},
		}
	}
	start := time.Now()
	for i, s := range []*snapshot{at("first", 10, 10), at("first", 15, 15), nil, at("second", 1, 1), at("second", 4, 4)} {
		now := start.Add(time.Duration(i) * time.Second)
		w.add(sample{at: now, snapshots: w.continued([]*snapshot{s})}, now)
		newest, _ := w.last(0)
		want := []int64{10, 15, 15, 16, 19}[i]
		if got := newest.snapshots[0].Sources["redis"].Admitted; got != want {
			t.Errorf("step %d: admitted %d, want %d", i, got, want)
		}
	}
	b := w.bound(redislimiter.TokenBucket(1, time.Second, 2))
	if b.Admitted != 4 || b.AtMost != 6 || b.Broken {
		t.Errorf("%+v, want 4 of at most 2 + 4 × 1", b)
	}
	if b := w.bound(redislimiter.TokenBucket(1, time.Hour, 2)); !b.Broken {
		t.Errorf("%+v: 4 are more than 2", b)
	}
}

// Only what certainly lies within a period is counted.
func TestMost(t *testing.T) {
	ms := func(sent, at int, kind string) dot {
		return dot{time.Duration(sent) * time.Millisecond, time.Duration(at) * time.Millisecond, kind}
	}
	dots := []dot{ms(0, 5, "redis"), ms(900, 905, "redis"), ms(900, 990, "refused"), ms(1000, 1010, "open"), ms(1850, 1899, "memory"), ms(1890, 1901, "redis")}
	if got := most(dots, time.Second); got != 3 {
		t.Errorf("%d, want the three from 900 to 1899", got)
	}
	if got := most(nil, time.Second); got != 0 {
		t.Errorf("%d of none", got)
	}
}
