package integration_test

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A load is a few goroutines that ask as clients do, steadily and whatever the answer.
type load struct {
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu      sync.Mutex
	counts  map[rl.Source]*decisions
	errs    []error
	slowest time.Duration
}

// Decisions of one source. The instants are kept to find when it began again.
type decisions struct {
	admitted, refused int
	at                []time.Time
}

func (d decisions) all() int { return d.admitted + d.refused }

// first is the instant of the first decision that earlier did not have.
func (d decisions) first(earlier decisions) time.Time { return d.at[earlier.all()] }

func (d decisions) String() string {
	return fmt.Sprintf("admitted %d, refused %d", d.admitted, d.refused)
}

func begin(t *testing.T, l rl.Allower, late *lateness) *load {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	run := &load{cancel: cancel, counts: map[rl.Source]*decisions{}}
	for range 8 {
		run.running.Go(func() {
			pace := time.NewTicker(10 * time.Millisecond)
			defer pace.Stop()
			for ctx.Err() == nil {
				late.call(outageTimeout, func() { run.ask(l) })
				<-pace.C
			}
		})
	}
	t.Cleanup(func() { run.end(t) })
	return run
}

func (run *load) ask(l rl.Allower) {
	start := time.Now()
	r, err := l.AllowN(context.Background(), "k", 1)
	took := time.Since(start)
	run.mu.Lock()
	defer run.mu.Unlock()
	run.slowest = max(run.slowest, took)
	if err != nil {
		run.errs = append(run.errs, err)
		return
	}
	d := run.counts[r.Source]
	if d == nil {
		d = &decisions{}
		run.counts[r.Source] = d
	}
	if d.at = append(d.at, time.Now()); r.Allowed {
		d.admitted++
	} else {
		d.refused++
	}
}

func (run *load) count(source rl.Source) decisions {
	run.mu.Lock()
	defer run.mu.Unlock()
	if d := run.counts[source]; d != nil {
		return *d
	}
	return decisions{}
}

// end stops the load, once, and fails the test if a caller got an error.
func (run *load) end(t *testing.T) {
	t.Helper()
	run.cancel()
	run.running.Wait()
	for i, err := range run.errs {
		if i < 5 {
			t.Errorf("a caller got %v (%d did)", err, len(run.errs))
		}
	}
	run.errs = nil
}
