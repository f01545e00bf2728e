package main

import (
	"context"
	"math"
	"math/bits"
	"sync"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A snapshot is what an instance has counted since it started.
type snapshot struct {
	Boot     string                `json:"boot"` // changes when the process is another one
	Settings settings              `json:"settings"`
	Sources  map[string]outcome    `json:"sources"`
	Failures int64                 `json:"failures"` // times that Redis was asked and gave no decision
	Failure  string                `json:"failure"`  // the last of them
	Latency  histogram             `json:"latency"`
	Clients  map[string]clientStat `json:"clients"`
}

// outcome counts decisions.
type outcome struct {
	Admitted int64 `json:"admitted"`
	Refused  int64 `json:"refused"`
}

func (o *outcome) add(allowed bool) {
	if allowed {
		o.Admitted++
		return
	}
	o.Refused++
}

func (o outcome) minus(p outcome) outcome {
	return outcome{o.Admitted - p.Admitted, o.Refused - p.Refused}
}
func (o outcome) plus(p outcome) outcome {
	return outcome{o.Admitted + p.Admitted, o.Refused + p.Refused}
}

// clientStat is what an instance knows of one client: its counts, and the last
// decision. Both are of this instance alone.
type clientStat struct {
	All        outcome   `json:"all"`
	ByRedis    int64     `json:"byRedis"` // admitted
	At         time.Time `json:"at"`
	Allowed    bool      `json:"allowed"`
	Source     string    `json:"source"`
	Remaining  int       `json:"remaining"`
	Limit      int       `json:"limit"`
	RetryAfter float64   `json:"retryAfter"` // seconds
}

// maxClients is how many clients a meter remembers. One whose last request is
// oldest goes first.
const maxClients = 64

// A meter counts the decisions of an instance.
type meter struct {
	mu       sync.Mutex
	sources  map[redislimiter.Source]outcome
	clients  map[string]clientStat
	latency  histogram
	failures int64
	failure  error
}

func newMeter() *meter {
	return &meter{sources: map[redislimiter.Source]outcome{}, clients: map[string]clientStat{}}
}

// watch counts what l decides.
func (m *meter) watch(l redislimiter.Allower) redislimiter.Allower {
	return redislimiter.AllowerFunc(func(ctx context.Context, key string, n int) (redislimiter.Result, error) {
		began := time.Now()
		result, err := l.AllowN(ctx, key, n)
		if err == nil {
			m.decided(key, result, time.Since(began))
		}
		return result, err
	})
}

func (m *meter) decided(key string, r redislimiter.Result, took time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.latency.add(took)
	source := m.sources[r.Source]
	source.add(r.Allowed)
	m.sources[r.Source] = source

	c, known := m.clients[key]
	if !known && len(m.clients) >= maxClients {
		m.forgetOldest()
	}
	c.All.add(r.Allowed)
	if r.Allowed && r.Source == redislimiter.SourceRedis {
		c.ByRedis++
	}
	c.At, c.Allowed, c.Source = time.Now(), r.Allowed, r.Source.String()
	c.Remaining, c.Limit, c.RetryAfter = r.Remaining, r.Limit.Burst(), r.RetryAfter.Seconds()
	m.clients[key] = c
}

func (m *meter) forgetOldest() {
	oldest, at := "", time.Time{}
	for key, c := range m.clients {
		if oldest == "" || c.At.Before(at) {
			oldest, at = key, c.At
		}
	}
	delete(m.clients, oldest)
}

// redisFailed is an OnError.
func (m *meter) redisFailed(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.failures++
	m.failure = err
}

func (m *meter) snapshot() snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	s := snapshot{Sources: map[string]outcome{}, Clients: map[string]clientStat{}, Failures: m.failures, Latency: m.latency}
	if m.failure != nil {
		s.Failure = m.failure.Error()
	}
	for source, o := range m.sources {
		s.Sources[source.String()] = o
	}
	for key, c := range m.clients {
		s.Clients[key] = c
	}
	return s
}

// A histogram counts durations in steps of a quarter of a power of two, from a
// microsecond to a minute: a quantile is at most a quarter too large.
type histogram [26 * 4]int64

func (h *histogram) add(d time.Duration) {
	us := uint64(max(d.Microseconds(), 1))
	octave := bits.Len64(us) - 1
	quarter := us << 2 >> octave & 3 // the two bits behind the first
	h[min(octave*4+int(quarter), len(h)-1)]++
}

func (h histogram) minus(other histogram) histogram {
	for i, n := range other {
		h[i] -= n
	}
	return h
}

func (h histogram) plus(other histogram) histogram {
	for i, n := range other {
		h[i] += n
	}
	return h
}

// quantile is the end of the step in which the q-th of the durations lies, 0 if
// there is none.
func (h histogram) quantile(q float64) time.Duration {
	var total int64
	for _, n := range h {
		total += n
	}
	rank := int64(math.Ceil(q * float64(total)))
	for i, n := range h {
		if rank -= n; n > 0 && rank <= 0 {
			end := math.Ldexp(1+float64(i%4+1)/4, i/4)
			return time.Duration(end * float64(time.Microsecond))
		}
	}
	return 0
}
