package redislimiter

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"
)

// Wait blocks until l allows n units for key and, if they were given a Delay,
// until their turn. It suits outgoing calls to an API that is limited.
//
// It returns nil once the caller may go on. It gives up at once, with an error
// that is context.DeadlineExceeded, if ctx ends before the promised time; what
// was charged is given back then. Errors of l are returned as they are.
//
// Waiters of one key do not take turns, except before a [LeakyBucket], which
// gives each its own: there they wait once. Elsewhere they try again when
// something is free, those that were beaten to it after a random while longer
// each time, so that a thousand waiters do not ask all at once.
func Wait(ctx context.Context, l Allower, key string, n int) error {
	for beaten := 0; ; beaten++ {
		r, err := l.AllowN(ctx, key, n)
		if err != nil {
			return err
		}
		if r.Allowed {
			return pause(ctx, r, r.Delay, n)
		}
		wait := max(r.RetryAfter, time.Millisecond)
		if err := pause(ctx, r, wait, 0); err != nil {
			return err
		}
		if beaten > 0 {
			if err := pause(ctx, r, spread(ctx, wait, beaten), 0); err != nil {
				return err
			}
		}
	}
}

// pause sleeps d, unless ctx ends before; n units are given back then.
func pause(ctx context.Context, r Result, d time.Duration, n int) error {
	if d <= 0 {
		return nil
	}
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) < d {
		giveBack(ctx, r, n)
		return fmt.Errorf("redislimiter: %s: would have to wait %v: %w", r.Name, d, context.DeadlineExceeded)
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		giveBack(ctx, r, n)
		return ctx.Err()
	}
}

func giveBack(ctx context.Context, r Result, n int) {
	_ = r.Refund(context.WithoutCancel(ctx), n) // stays charged if it does not get through
}

// spread is a random while that grows with the times a waiter was beaten, and
// leaves time for another try before ctx ends.
func spread(ctx context.Context, wait time.Duration, beaten int) time.Duration {
	most := wait << min(beaten-1, 6)
	if deadline, ok := ctx.Deadline(); ok {
		most = min(most, time.Until(deadline)/2)
	}
	if most <= 0 {
		return 0
	}
	return rand.N(most)
}
