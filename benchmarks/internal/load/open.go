package load

import (
	"context"
	"sync"
	"time"
)

// Open sends requests at a rate of its own, whether or not those before are
// answered, as clients on the internet do. The time that a request takes counts
// from when it was due, so that a limiter which falls behind cannot hide it by
// slowing the load down.
//
// It stops early once maxWaiting requests are unanswered: the limiter does not
// keep up then, and how late it is depends only on how long one watches.
func Open(ctx context.Context, decide Decide, keys Keys, rate float64, lasting time.Duration) (o *Outcome, keptUp bool) {
	o = watch(func() []*caller {
		var callers []*caller
		callers, keptUp = arrive(ctx, decide, keys, rate, int(rate*lasting.Seconds()))
		return callers
	})
	return o, keptUp
}

// maxWaiting is how many requests may be unanswered.
const maxWaiting = 20_000

// arrive starts requests when they are due, each on a caller that is free.
func arrive(ctx context.Context, decide Decide, keys Keys, rate float64, total int) ([]*caller, bool) {
	free := make(chan *caller, maxWaiting)
	var callers []*caller
	var all sync.WaitGroup
	defer all.Wait()
	start := time.Now()
	for i := range total {
		due := start.Add(time.Duration(float64(i) / rate * float64(time.Second)))
		if ahead := time.Until(due); ahead > 0 {
			time.Sleep(ahead)
		}
		c := pick(free)
		if c == nil {
			if len(callers) == maxWaiting {
				return callers, false
			}
			c = &caller{next: keys(len(callers), maxWaiting)}
			callers = append(callers, c)
		}
		all.Go(func() {
			c.ask(ctx, decide)
			c.latency.Add(time.Since(due))
			free <- c
		})
	}
	return callers, true
}

func pick(free chan *caller) *caller {
	select {
	case c := <-free:
		return c
	default:
		return nil
	}
}
