package integration_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// grace is how much later than its deadline a call may return.
const grace = 5 * time.Millisecond

// A lateness is how much later than their deadline calls returned.
//
// No program can promise that on a machine that does not run it, and tests run on busy ones. So beside each call a
// goroutine does nothing but wait for the same instant. Calls may be later by grace than those timers: the median of those
// that are late than the median, and all but a thousandth of all calls than the latest. A call takes three goroutines to come back, each of
// which a busy machine may keep waiting as long as that one timer. That no call is late by itself is shown to the
// microsecond in virtual time.
type lateness struct {
	mu            sync.Mutex
	calls, timers []time.Duration // of calls that had no answer before
	all           int             // calls, those included that had

	beside atomic.Int64 // goroutines that wait beside calls
}

// few late calls have no median: one of them may be the one that the machine kept waiting.
const few = 10

// call times f, which has to be back after timeout.
func (l *lateness) call(timeout time.Duration, f func()) {
	deadline := time.Now().Add(timeout)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	timer := make(chan time.Duration, 1)
	l.beside.Add(1)
	go func() {
		defer l.beside.Add(-1)
		<-ctx.Done()
		timer <- time.Since(deadline)
	}()
	f()
	late := time.Since(deadline)
	l.mu.Lock()
	l.all++
	l.mu.Unlock()
	if late < -grace {
		return // it had its answer before: not a call that this is about
	}
	bare := <-timer
	l.mu.Lock()
	defer l.mu.Unlock()
	l.calls, l.timers = append(l.calls, late), append(l.timers, bare)
}

// check fails the test if calls returned late, and tells how late.
func (l *lateness) check(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.calls) == 0 {
		return
	}
	t.Logf("%d of %d calls after their deadline: %s; timers beside them: %s", len(l.calls), l.all, spread(l.calls), spread(l.timers))
	if half, timers := at(l.calls, 0.5), at(l.timers, 0.5); len(l.calls) >= few && half > grace+3*timers {
		t.Errorf("half of the calls are more than %v late, of the timers beside them %v", half, timers)
	}
	slices.Sort(l.calls)
	last := len(l.calls) - 1 - l.all/1000
	if last < 0 {
		return
	}
	if most, slack := l.calls[last], at(l.timers, 1); most > grace+3*slack {
		t.Errorf("0.1%% of the calls are more than %v late, and no timer beside them more than %v", most, slack)
	}
}

// worst tells how late the machine was with a timer that had nothing to do with the library.
func (l *lateness) worst() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.timers) == 0 {
		return 0
	}
	return at(l.timers, 1)
}

// at returns a percentile.
func at(all []time.Duration, share float64) time.Duration {
	slices.Sort(all)
	return all[int(share*float64(len(all)-1))]
}

func spread(all []time.Duration) string {
	return fmt.Sprintf("median %v, p99.9 %v, worst %v", micros(at(all, 0.5)), micros(at(all, 0.999)), micros(at(all, 1)))
}

func micros(d time.Duration) time.Duration { return d.Round(time.Microsecond) }
