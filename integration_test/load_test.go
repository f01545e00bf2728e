package integration_test

import (
	"context"
	"sync"
	"testing"
	"time"

	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

const outageTimeout = 50 * time.Millisecond

// A load is a few goroutines that ask as clients do, steadily and whatever the answer.
type load struct {
	cancel  context.CancelFunc
	running sync.WaitGroup

	mu     sync.Mutex
	counts map[rl.Source]*decisions
	errs   []error
}

// Decisions of one source. The instants are kept to find when it began again.
type decisions struct {
	admitted, refused int
	at                []time.Time
}

func (d decisions) all() int { return d.admitted + d.refused }

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
	r, err := l.AllowN(context.Background(), "k", 1)
	run.mu.Lock()
	defer run.mu.Unlock()
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

// resumed is how long after an instant Redis decided for the first time; 0 if it did not.
func (run *load) resumed(since time.Time) time.Duration {
	run.mu.Lock()
	defer run.mu.Unlock()
	if d := run.counts[rl.SourceRedis]; d != nil {
		for _, at := range d.at {
			if at.After(since) {
				return at.Sub(since)
			}
		}
	}
	return 0
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
