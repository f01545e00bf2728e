package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A phase is a part of the show. It is cut off from the next one while requests
// are under way; a decision belongs to the phase in which it was made.
type phase struct {
	began time.Time // by the clock of this process
	start time.Time // the same by that of Redis, or a little earlier; zero while it is away
}

// show runs until ctx is done or -for is over, and returns what did not hold.
func (d *demo) show(ctx context.Context) (problems []string) {
	defer close(d.over)
	d.report.opening(d)
	if d.cfg.length == 0 {
		d.load.send()
		return d.free(ctx, nil)
	}
	ctx, cancel := context.WithTimeout(ctx, d.cfg.length+time.Second) // the script ends by itself
	defer cancel()
	problems, taken := d.script(ctx)
	if taken != nil {
		d.report.taken()
		problems = append(problems, d.free(ctx, taken)...)
	}
	return problems
}

// lengths are how long each phase of the script takes.
func (d *demo) lengths() (up, outage, back time.Duration) {
	all := d.cfg.length
	up, outage = all*4/10, all*3/10
	return up, outage, all - up - outage
}

// script goes through the phases, as far as ctx allows. A change of the
// settings by hand ends it, and is returned.
func (d *demo) script(ctx context.Context) (problems []string, taken *command) {
	up, outage, back := d.lengths()
	for _, phase := range []func() ([]string, *command){
		func() ([]string, *command) { return d.showUp(ctx, up) },
		func() ([]string, *command) { return d.showOutage(ctx, outage) },
		func() ([]string, *command) { return d.showBack(ctx, back) },
	} {
		found, taken := phase()
		problems = append(problems, found...)
		if taken != nil || ctx.Err() != nil {
			return problems, taken
		}
	}
	return problems, nil
}

func (d *demo) showUp(ctx context.Context, length time.Duration) (problems []string, taken *command) {
	p, err := d.begin(ctx)
	if err != nil {
		return []string{err.Error()}, nil
	}
	d.load.send()
	d.report.columns()
	taken = d.watch(ctx, p, length)
	c, v, span, err := d.finish(ctx, p)
	if err != nil {
		return []string{err.Error()}, taken
	}
	d.report.up(c, v, span)
	problems = append(answered(c), v.problems...)
	if taken == nil && c.bySource(redislimiter.SourceRedis) == 0 {
		problems = append(problems, "Redis was up and decided nothing")
	}
	return problems, taken
}

// begin starts a stretch with one limit, whose decisions by Redis are judged
// by Redis's clock.
func (d *demo) begin(ctx context.Context) (phase, error) {
	start, err := d.clock.now(ctx)
	if err != nil {
		return phase{}, fmt.Errorf("the clock of Redis: %w", err)
	}
	d.tally.nextPhase()
	return phase{began: d.tally.began(), start: start}, nil
}

// finish ends a stretch and adds it to the sum.
func (d *demo) finish(ctx context.Context, p phase) (*counts, verdict, time.Duration, error) {
	// First the counts, then the clock: every decision that is counted lies
	// between the two readings, also those that are under way now.
	c := d.tally.nextPhase()
	end, err := d.clock.now(ctx)
	if err != nil {
		return c, verdict{}, 0, fmt.Errorf("the clock of Redis: %w", err)
	}
	span := end.Sub(p.start)
	v := judge(c, redislimiter.SourceRedis, 1, d.limit, span)
	d.sum.admitted += v.admitted
	d.sum.atMost += v.atMost
	return c, v, span, nil
}

func (d *demo) showOutage(ctx context.Context, length time.Duration) (problems []string, taken *command) {
	d.tally.nextPhase()
	p := phase{began: d.tally.began()}
	if err := d.connect(ctx, false); err != nil {
		return []string{err.Error()}, nil
	}
	d.report.cut()
	d.report.columns()
	taken = d.watch(ctx, p, length)
	c := d.tally.nextPhase()
	span := time.Since(p.began)
	v := d.localVerdict(c, span)
	d.report.outage(c, v, span, d.policy)
	problems = append(answered(c), v.problems...)
	if taken == nil && ctx.Err() == nil && c.bySource(d.policy.source) == 0 {
		problems = append(problems, fmt.Sprintf("Redis was away and nothing was decided by %v", d.policy.source))
	}
	return problems, taken
}

func (d *demo) showBack(ctx context.Context, length time.Duration) (problems []string, taken *command) {
	p, err := d.begin(ctx)
	if err != nil {
		return []string{err.Error()}, nil
	}
	if err := d.connect(ctx, true); err != nil {
		return []string{err.Error()}, nil
	}
	d.report.restored()
	d.report.columns()
	taken = d.watch(ctx, p, length)
	c, v, span, err := d.finish(ctx, p)
	if err != nil {
		return []string{err.Error()}, taken
	}
	d.report.back(c, v, span)
	problems = append(answered(c), v.problems...)
	for i, first := range c.firstByRedis {
		if first == 0 && taken == nil && ctx.Err() == nil {
			problems = append(problems, d.instances[i].name+" did not return to Redis")
		}
	}
	return problems, taken
}

// free makes the changes that come from the page until ctx is done, the first
// of which may be there already. A change of the limit ends one stretch and
// begins another.
func (d *demo) free(ctx context.Context, next *command) (problems []string) {
	for {
		if next != nil {
			next.done <- d.change(ctx, next.mutate)
		}
		p, err := d.begin(ctx)
		if err != nil {
			return append(problems, err.Error())
		}
		d.report.columns()
		for next = d.watch(ctx, p, 0); next != nil && !d.changesLimit(next); next = d.watch(ctx, p, 0) {
			next.done <- d.change(ctx, next.mutate)
		}
		c, v, span, err := d.finish(ctx, p)
		if err != nil {
			problems = append(problems, err.Error())
		}
		d.report.up(c, v, span)
		problems = append(problems, append(answered(c), v.problems...)...)
		if next == nil {
			return problems
		}
	}
}

func (d *demo) changesLimit(c *command) bool {
	now := d.cockpit.settings()
	next := now
	c.mutate(&next)
	return !next.sameLimit(now)
}

// answered complains of requests that got no answer, or one that is none of a
// limiter: whatever Redis does, the clients are to be told something sensible.
func answered(c *counts) (problems []string) {
	if c.broken > 0 {
		problems = append(problems, fmt.Sprintf("%d requests got no answer", c.broken))
	}
	for status, n := range c.statuses {
		switch status {
		case http.StatusOK, http.StatusTooManyRequests, http.StatusServiceUnavailable:
		default:
			problems = append(problems, fmt.Sprintf("%d requests were answered with %d", n, status))
		}
	}
	return problems
}

// watch prints a line a second until the phase is over, or a change of the
// settings comes, which it returns; length 0 has no end.
func (d *demo) watch(ctx context.Context, p phase, length time.Duration) *command {
	var over <-chan time.Time
	if length > 0 {
		timer := time.NewTimer(time.Until(p.began.Add(length)))
		defer timer.Stop()
		over = timer.C
	}
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for last := p.began; ; last = time.Now() {
		select {
		case <-ticker.C:
			d.line(ctx, p)
		case c := <-d.commands:
			return &c
		case <-over:
			if time.Since(last) > 100*time.Millisecond { // there is something to tell
				d.line(ctx, p)
			}
			return nil
		case <-ctx.Done():
			return nil
		}
	}
}

// line prints the second that ends, and how the phase stands against the limit.
func (d *demo) line(ctx context.Context, p phase) {
	second, soFar := d.tally.nextSecond()
	since := time.Since(p.began)
	if p.start.IsZero() {
		source := d.policy.source
		d.report.line(since, second, soFar.admitted(source), d.policy.most(d.localVerdict(soFar, since)))
		return
	}
	now, err := d.clock.now(ctx)
	if err != nil {
		return // the end of the phase says more
	}
	v := judge(soFar, redislimiter.SourceRedis, 1, d.limit, now.Sub(p.start))
	d.report.line(since, second, int(v.admitted), fmt.Sprint(v.atMost))
}

// localVerdict is about the shares that the instances enforce by themselves.
func (d *demo) localVerdict(c *counts, span time.Duration) verdict {
	return judge(c, redislimiter.SourceMemory, instanceCount, d.policy.share, span)
}
