// Package load asks limiters for decisions and measures what comes back.
package load

import (
	"context"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// Decide asks a limiter whether one unit may be done for a key.
type Decide func(ctx context.Context, key string) (allowed bool, err error)

// Keys makes the sequence of keys that one of several callers asks about.
type Keys func(caller, callers int) func() string

// A Plan is what to do to a limiter.
type Plan struct {
	Callers int
	For     time.Duration
	Keys    Keys
	// Every is how many calls there are to one that is timed. Reading the
	// clock takes as long as a decision in memory, so there 1 would measure
	// the clock.
	Every int
}

// An Outcome is what a plan brought.
type Outcome struct {
	Decisions, Refused, Errors int64
	FirstError                 error
	Elapsed                    time.Duration
	Latency                    Histogram
	Mallocs                    uint64        // of the whole process
	CPU                        time.Duration // of the whole process
}

// Closed runs callers that each ask again as soon as they have an answer.
func Closed(ctx context.Context, decide Decide, plan Plan) *Outcome {
	callers := make([]*caller, plan.Callers)
	for i := range callers {
		callers[i] = &caller{next: plan.Keys(i, plan.Callers), every: max(plan.Every, 1)}
	}
	var stop atomic.Bool
	var all sync.WaitGroup
	begin := make(chan struct{})
	for _, c := range callers {
		all.Go(func() {
			// As a request has: many callers that wait for the end of one
			// context would get in each other's way.
			ctx, cancel := context.WithCancel(ctx)
			defer cancel()
			<-begin
			c.run(ctx, decide, &stop)
		})
	}
	return watch(func() []*caller {
		timer := time.AfterFunc(plan.For, func() { stop.Store(true) })
		defer timer.Stop()
		close(begin)
		all.Wait()
		return callers
	})
}

// watch measures the process while work runs, and adds up its callers.
func watch(work func() []*caller) *Outcome {
	var before, after runtime.MemStats
	runtime.GC() // what the run before left must not be paid for here
	runtime.ReadMemStats(&before)
	used, start := processCPU(), time.Now()
	callers := work()
	o := &Outcome{Elapsed: time.Since(start), CPU: processCPU() - used}
	runtime.ReadMemStats(&after)
	o.Mallocs = after.Mallocs - before.Mallocs
	for _, c := range callers {
		o.Decisions += c.decisions
		o.Refused += c.refused
		o.Errors += c.errors
		o.Latency.Merge(&c.latency)
		if o.FirstError == nil {
			o.FirstError = c.firstError
		}
	}
	return o
}

// A caller is one of the goroutines that ask.
type caller struct {
	next  func() string
	every int

	decisions, refused, errors int64
	firstError                 error
	latency                    Histogram
}

func (c *caller) run(ctx context.Context, decide Decide, stop *atomic.Bool) {
	for !stop.Load() {
		start := time.Now()
		c.ask(ctx, decide)
		c.latency.Add(time.Since(start))
		for i := 1; i < c.every && !stop.Load(); i++ {
			c.ask(ctx, decide)
		}
	}
}

func (c *caller) ask(ctx context.Context, decide Decide) {
	allowed, err := decide(ctx, c.next())
	switch {
	case err != nil:
		c.errors++
		if c.firstError == nil {
			c.firstError = err
		}
		return
	case !allowed:
		c.refused++
	}
	c.decisions++
}

// processCPU is the processor time that this process has used.
func processCPU() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
