package main

import (
	"fmt"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A policy is what an instance does while Redis gives no decision.
type policy struct {
	name   string
	source redislimiter.Source // how its decisions are marked
	share  redislimiter.Limit  // of one instance; local only
}

func policyOf(name string, limit redislimiter.Limit, instances int) (policy, error) {
	switch name {
	case "open":
		return policy{name: name, source: redislimiter.SourceOpen}, nil
	case "closed":
		return policy{name: name, source: redislimiter.SourceClosed}, nil
	case "local":
		p := policy{name: name, source: redislimiter.SourceMemory, share: limit.Share(instances)}
		if _, err := p.secondary(limiterName); err != nil {
			return policy{}, fmt.Errorf("on-failure local: the share of one instance: %w", err)
		}
		return p, nil
	}
	return policy{}, fmt.Errorf("on-failure: %q, must be open, closed or local", name)
}

// secondary makes the limiter that decides in the place of Redis. Each
// instance needs its own, as it would in a process of its own.
func (p policy) secondary(name string) (redislimiter.Allower, error) {
	switch p.source {
	case redislimiter.SourceOpen:
		return redislimiter.Open, nil
	case redislimiter.SourceClosed:
		return redislimiter.Closed, nil
	}
	return redislimiter.NewMemory(name, p.share)
}

// most is how much can be admitted at most, in words; local is the verdict about
// the shares.
func (p policy) most(local verdict) string {
	switch p.source {
	case redislimiter.SourceOpen:
		return "no limit"
	case redislimiter.SourceClosed:
		return "0"
	}
	return fmt.Sprint(local.atMost)
}

func (p policy) String() string {
	switch p.source {
	case redislimiter.SourceOpen:
		return "open: everything is admitted, and nobody counts"
	case redislimiter.SourceClosed:
		return "closed: nothing is admitted (503)"
	}
	return fmt.Sprintf("local: each instance enforces its share by itself (%v)", p.share)
}
