package main

import (
	"maps"
	"sync"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A decision is one of an instance about a client; the key is the client's
// address.
type decision struct {
	instance int
	key      string
	source   redislimiter.Source
	allowed  bool
}

// counts is what happened in a span of time.
type counts struct {
	began     time.Time
	decisions map[decision]int
	statuses  map[int]int   // of answers to the demo's clients
	broken    int           // their requests that got no answer
	slowest   time.Duration // of their answers
	failures  int           // times that Redis was asked and gave no decision
	failure   error         // the last of them
	// firstByRedis is when an instance had its first decision by Redis, since
	// began. It is not set if there was none.
	firstByRedis [instanceCount]time.Duration
}

func newCounts() *counts {
	return &counts{began: time.Now(), decisions: map[decision]int{}, statuses: map[int]int{}}
}

// sum counts the decisions that match.
func (c *counts) sum(match func(decision) bool) int {
	total := 0
	for d, n := range c.decisions {
		if match(d) {
			total += n
		}
	}
	return total
}

// of counts the decisions of one kind: admitted or refused.
func (c *counts) of(allowed bool) int {
	return c.sum(func(d decision) bool { return d.allowed == allowed })
}

func (c *counts) bySource(s redislimiter.Source) int {
	return c.sum(func(d decision) bool { return d.source == s })
}

func (c *counts) admitted(s redislimiter.Source) int {
	return c.sum(func(d decision) bool { return d.source == s && d.allowed })
}

func (c *counts) byInstance(instance int, allowed bool) int {
	return c.sum(func(d decision) bool { return d.instance == instance && d.allowed == allowed })
}

func (c *counts) byClient(key string, s redislimiter.Source, allowed bool) int {
	return c.sum(func(d decision) bool { return d.key == key && d.source == s && d.allowed == allowed })
}

// keys are the clients that a source has decided about.
func (c *counts) keys(s redislimiter.Source) map[string]bool {
	keys := map[string]bool{}
	for d := range c.decisions {
		if d.source == s {
			keys[d.key] = true
		}
	}
	return keys
}

// A tally collects what instances and clients report, for the phase and for
// the second that are going on.
type tally struct {
	mu     sync.Mutex
	phase  *counts
	second *counts
}

func newTally() *tally { return &tally{phase: newCounts(), second: newCounts()} }

func (t *tally) both(add func(*counts)) {
	t.mu.Lock()
	defer t.mu.Unlock()
	add(t.phase)
	add(t.second)
}

func (t *tally) decided(d decision) {
	t.both(func(c *counts) {
		c.decisions[d]++
		if d.source == redislimiter.SourceRedis && c.firstByRedis[d.instance] == 0 {
			c.firstByRedis[d.instance] = time.Since(c.began)
		}
	})
}

// redisFailed is the OnError of the instances.
func (t *tally) redisFailed(err error) {
	t.both(func(c *counts) { c.failures++; c.failure = err })
}

func (t *tally) answered(status int, took time.Duration) {
	t.both(func(c *counts) {
		c.statuses[status]++
		c.slowest = max(c.slowest, took)
	})
}

func (t *tally) broke() {
	t.both(func(c *counts) { c.broken++ })
}

// began is when the phase that goes on began.
func (t *tally) began() time.Time {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.phase.began
}

// nextPhase begins a phase and returns the one that ends.
func (t *tally) nextPhase() *counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	ended := t.phase
	t.phase, t.second = newCounts(), newCounts()
	return ended
}

// nextSecond begins a second. It returns the one that ends and the phase so far.
func (t *tally) nextSecond() (second, phase *counts) {
	t.mu.Lock()
	defer t.mu.Unlock()
	ended, soFar := t.second, *t.phase
	soFar.decisions, soFar.statuses = maps.Clone(soFar.decisions), maps.Clone(soFar.statuses)
	t.second = newCounts()
	return ended, &soFar
}
