package main

import (
	"context"
	"fmt"
	"net/http"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// Without -for, Redis is up for as long as it takes to try things by hand, and
// the recovery goes on until the program is interrupted.
const (
	upByHand     = 12 * time.Second
	outageByHand = 9 * time.Second
)

// A phase is a part of the show. It is cut off from the next one while requests
// are under way; a decision belongs to the phase in which it was made.
type phase struct {
	began time.Time // by the clock of this process
	start time.Time // the same by that of Redis, or a little earlier; zero while it is away
}

// lengths are how long each phase takes; 0 has no end.
func (d *demo) lengths() (up, outage, back time.Duration) {
	all := d.cfg.length
	if all == 0 {
		return upByHand, outageByHand, 0
	}
	up, outage = all*4/10, all*3/10
	return up, outage, all - up - outage
}

// show goes through the phases, as far as ctx allows, and returns what did not
// hold.
func (d *demo) show(ctx context.Context) (problems []string) {
	d.report.opening(d)
	up, outage, back := d.lengths()
	problems = d.showUp(ctx, up)
	if ctx.Err() == nil {
		problems = append(problems, d.showOutage(ctx, outage)...)
	}
	if ctx.Err() == nil {
		problems = append(problems, d.showBack(ctx, back)...)
	}
	return problems
}

func (d *demo) showUp(ctx context.Context, length time.Duration) []string {
	start, err := d.clock.now(ctx)
	if err != nil {
		return []string{"the clock of Redis: " + err.Error()}
	}
	d.tally.nextPhase()
	p := phase{began: d.tally.began(), start: start}
	d.send()
	d.watch(ctx, p, length)
	// First the counts, then the clock: every decision that is counted lies
	// between the two readings, also those that are under way now.
	c := d.tally.nextPhase()
	end, err := d.clock.now(ctx)
	if err != nil {
		return []string{"the clock of Redis: " + err.Error()}
	}
	span := end.Sub(start)
	d.up = judge(c, redislimiter.SourceRedis, 1, d.cfg.limit, span)
	d.report.up(c, d.up, span)
	problems := append(answered(c), d.up.problems...)
	if c.bySource(redislimiter.SourceRedis) == 0 {
		problems = append(problems, "Redis was up and decided nothing")
	}
	return problems
}

func (d *demo) showOutage(ctx context.Context, length time.Duration) []string {
	p := phase{began: d.tally.began()}
	d.backend.cut()
	d.report.stopped(d.backend)
	d.watch(ctx, p, length)
	c := d.tally.nextPhase()
	span := time.Since(p.began)
	v := d.localVerdict(c, span)
	d.report.outage(c, v, span)
	problems := append(answered(c), v.problems...)
	if ctx.Err() == nil && c.bySource(d.cfg.policy.source) == 0 {
		problems = append(problems, fmt.Sprintf("Redis was away and nothing was decided by %v", d.cfg.policy.source))
	}
	return problems
}

func (d *demo) showBack(ctx context.Context, length time.Duration) []string {
	p := phase{began: d.tally.began()}
	if err := d.backend.restore(); err != nil {
		return []string{err.Error()}
	}
	now, err := d.clock.now(ctx)
	if err != nil {
		return []string{"Redis does not come back: " + err.Error()}
	}
	p.start = now.Add(-time.Since(p.began))
	d.report.restored()
	d.watch(ctx, p, length)
	c := d.tally.nextPhase()
	end, err := d.clock.now(ctx)
	if err != nil {
		return []string{"the clock of Redis: " + err.Error()}
	}
	v := judge(c, redislimiter.SourceRedis, 1, d.cfg.limit, end.Sub(p.start))
	d.report.back(c, v, end.Sub(p.start), d.instances)
	problems := append(answered(c), v.problems...)
	for i, first := range c.firstByRedis {
		if first == 0 && ctx.Err() == nil {
			problems = append(problems, d.instances[i].name+" did not return to Redis")
		}
	}
	return problems
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

// watch prints a line a second until the phase is over; length 0 has no end.
func (d *demo) watch(ctx context.Context, p phase, length time.Duration) {
	d.report.columns()
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
		case <-over:
			if time.Since(last) > 100*time.Millisecond { // there is something to tell
				d.line(ctx, p)
			}
			return
		case <-ctx.Done():
			return
		}
	}
}

// line prints the second that ends, and how the phase stands against the limit.
func (d *demo) line(ctx context.Context, p phase) {
	second, soFar := d.tally.nextSecond()
	since := time.Since(p.began)
	if p.start.IsZero() {
		source := d.cfg.policy.source
		d.report.line(since, second, soFar.admitted(source), d.cfg.policy.most(d.localVerdict(soFar, since)))
		return
	}
	now, err := d.clock.now(ctx)
	if err != nil {
		return // the end of the phase says more
	}
	v := judge(soFar, redislimiter.SourceRedis, 1, d.cfg.limit, now.Sub(p.start))
	d.report.line(since, second, int(v.admitted), fmt.Sprint(v.atMost))
}

// localVerdict is about the shares that the instances enforce by themselves.
func (d *demo) localVerdict(c *counts, span time.Duration) verdict {
	return judge(c, redislimiter.SourceMemory, instanceCount, d.cfg.policy.share, span)
}
