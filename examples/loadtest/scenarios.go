package main

import (
	"context"
	"crypto/rand"
	"fmt"
	"io"
	"net/http"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// An outcome is what a scenario has brought.
type outcome struct {
	title    string
	metrics  vegeta.Metrics
	admitted []time.Duration // when, since the beginning
	refused  int
	errors   int // answers that were neither 200 nor 429, or none
	verdict  verdict

	bin      time.Duration // of the picture
	steady   float64       // what is expected a second, after
	capacity float64       // which came at once; both 0: nothing
	away     [2]time.Duration
}

// all runs the scenarios one after the other.
func (s *settings) all(ctx context.Context, out io.Writer) ([]*outcome, error) {
	bucket := redislimiter.TokenBucket(s.rate, time.Second, s.burst)
	var outcomes []*outcome
	for _, scenario := range []func(context.Context, io.Writer) (*outcome, error){
		func(ctx context.Context, out io.Writer) (*outcome, error) {
			return s.oneClient(ctx, out, "one client, token bucket", bucket, judgeBucket)
		},
		func(ctx context.Context, out io.Writer) (*outcome, error) {
			return s.oneClient(ctx, out, "one client, sliding window log", redislimiter.SlidingWindowLog(s.rate, time.Second), judgeLog)
		},
		s.manyClients,
		func(ctx context.Context, out io.Writer) (*outcome, error) {
			return s.redisAway(ctx, out, "Redis away, fail open", redislimiter.Open, redislimiter.SourceOpen)
		},
		func(ctx context.Context, out io.Writer) (*outcome, error) {
			return s.redisAway(ctx, out, "Redis away, fail closed", redislimiter.Closed, redislimiter.SourceClosed)
		},
		func(ctx context.Context, out io.Writer) (*outcome, error) {
			local, err := redislimiter.NewMemory("loadtest-local", bucket.Share(1)) // this is the only instance
			if err != nil {
				return nil, err
			}
			return s.redisAway(ctx, out, "Redis away, limit locally", local, redislimiter.SourceMemory)
		},
	} {
		o, err := scenario(ctx, out)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			return nil, err
		}
		outcomes = append(outcomes, o)
	}
	return outcomes, nil
}

// newLimiter has a name that no other run uses, and is patient until it is warm.
func newLimiter(ctx context.Context, service *service, limit redislimiter.Limit) (*redislimiter.Limiter, error) {
	l, err := redislimiter.New(service.rdb, "loadtest-"+rand.Text(), limit)
	if err != nil {
		return nil, err
	}
	l.Timeout = patience
	return l, service.warm(ctx, l)
}

// patience is the Timeout where Redis stays: these scenarios are not about
// late decisions.
const patience = 5 * time.Second

type judgement func(redislimiter.Limit, []charge, int64) verdict

func (s *settings) oneClient(ctx context.Context, out io.Writer, title string, limit redislimiter.Limit, judge judgement) (*outcome, error) {
	service := newServer(s.redis)
	defer service.stop()
	l, err := newLimiter(ctx, service, limit)
	if err != nil {
		return nil, err
	}
	if err := service.serve(l); err != nil {
		return nil, err
	}
	o := &outcome{title: title, bin: time.Second, steady: float64(s.rate)}
	if limit.Burst() != limit.Rate() || limit.Algorithm() == "token bucket" {
		o.bin, o.capacity = 250*time.Millisecond, float64(s.burst)
	}
	s.attack(ctx, out, service, o, s.blast(), 1)
	service.record.mu.Lock()
	defer service.record.mu.Unlock()
	o.verdict = judge(limit, service.record.charges, int64(len(o.admitted)))
	o.noErrors()
	return o, service.tidy(ctx, s, l, 1)
}

func (s *settings) manyClients(ctx context.Context, out io.Writer) (*outcome, error) {
	service := newServer(s.redis)
	defer service.stop()
	limit := redislimiter.TokenBucket(1, 10*time.Minute, 2)
	l, err := newLimiter(ctx, service, limit)
	if err != nil {
		return nil, err
	}
	if err := service.serve(l); err != nil {
		return nil, err
	}
	const each = 3 // requests
	hits := uint64(s.clients * each)
	o := &outcome{title: fmt.Sprintf("%d clients, token bucket of 2", s.clients), bin: 250 * time.Millisecond}
	start := time.Now()
	s.attack(ctx, out, service, o, limited{
		rate: vegeta.Rate{Freq: max(int(float64(hits)/s.length.Seconds()), 1), Per: time.Second}, hits: hits,
	}, s.clients)
	o.verdict = judgeClients(limit, service.record.since(0), time.Since(start))
	if n := o.metrics.Requests; n != hits && ctx.Err() == nil {
		o.verdict.wrong("sent %d requests, not %d", n, hits)
	}
	o.noErrors()
	return o, service.tidy(ctx, s, l, s.clients)
}

func (s *settings) redisAway(ctx context.Context, out io.Writer, title string, secondary redislimiter.Allower, source redislimiter.Source) (*outcome, error) {
	service := newServer(s.redis)
	defer service.stop()
	limit := redislimiter.TokenBucket(s.rate, time.Second, s.burst)
	l, err := newLimiter(ctx, service, limit)
	if err != nil {
		return nil, err
	}
	l.Timeout = redislimiter.DefaultTimeout
	if err := service.serve(&redislimiter.Fallback{Primary: l, Secondary: secondary, OnError: func(error) {}}); err != nil {
		return nil, err
	}
	o := &outcome{title: title, bin: 250 * time.Millisecond, capacity: float64(s.burst), steady: float64(s.rate)}
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	away := make(chan outage, 1)
	start := time.Now()
	go func() {
		defer stop() // ends the attack
		away <- s.cutInTheMiddle(ctx, service)
	}()
	pacer := s.blast()
	pacer.time = 0
	s.attack(ctx, out, service, o, pacer, 1)
	gap := <-away
	o.away = [2]time.Duration{gap.cut.Sub(start), gap.restored.Sub(start)}
	decisions := service.record.since(0)
	service.record.mu.Lock()
	defer service.record.mu.Unlock()
	o.verdict = judgeOutage(limit, source, decisions, service.record.charges, gap)
	if source != redislimiter.SourceClosed {
		o.noErrors()
	}
	return o, nil
}

// cutInTheMiddle lets a third of the time pass, cuts the cable for a third, and
// returns a third after Redis has decided again.
func (s *settings) cutInTheMiddle(ctx context.Context, service *service) outage {
	pause(ctx, s.length/3)
	gap := outage{cut: time.Now()}
	service.cable.cut()
	pause(ctx, s.length/3)
	service.cable.restore()
	gap.restored = time.Now()
	seen := len(service.record.since(0))
	for time.Since(gap.restored) < 2*lateness && ctx.Err() == nil {
		pause(ctx, 10*time.Millisecond)
		later := service.record.since(seen)
		seen += len(later)
		for _, d := range later {
			if d.source == redislimiter.SourceRedis {
				pause(ctx, s.length/3)
				return gap
			}
		}
	}
	return gap
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// A limited pacer keeps a rate behind some hits at once, and stops after so
// many hits or at the end of its time.
type limited struct {
	atOnce uint64
	rate   vegeta.Rate
	hits   uint64
	time   time.Duration // 0: no end
}

// Rate implements vegeta.Pacer.
func (l limited) Rate(elapsed time.Duration) float64 { return l.rate.Rate(elapsed) }

// Pace implements vegeta.Pacer.
func (l limited) Pace(elapsed time.Duration, hits uint64) (time.Duration, bool) {
	var wait time.Duration
	var stop bool
	if hits >= l.atOnce {
		wait, stop = l.rate.Pace(elapsed, hits-l.atOnce)
	}
	return wait, stop || hits >= l.hits || l.time > 0 && elapsed > l.time
}

// blast asks for the capacity at once, so that no refill is lost while a bucket
// is still full, and then for five times what one client may do.
func (s *settings) blast() limited {
	return limited{uint64(s.burst), vegeta.Rate{Freq: 5 * s.rate, Per: time.Second}, endless, s.length}
}

const endless = ^uint64(0)

func clientKey(i int) string { return fmt.Sprintf("client-%d", i) }

// attack sends requests of so many clients in turn until the pacer or the
// context ends, and sums up the answers.
func (s *settings) attack(ctx context.Context, out io.Writer, service *service, o *outcome, pacer vegeta.Pacer, clients int) {
	targets := make([]vegeta.Target, clients)
	for i := range targets {
		targets[i] = vegeta.Target{Method: http.MethodGet, URL: service.url, Header: http.Header{clientHeader: {clientKey(i)}}}
	}
	attacker := vegeta.NewAttacker(vegeta.Workers(16), vegeta.MaxWorkers(256), vegeta.Connections(256), vegeta.MaxBody(0), vegeta.Timeout(30*time.Second))
	defer context.AfterFunc(ctx, func() { attacker.Stop() })()
	fmt.Fprintf(out, "\n%s\n", o.title)
	start, shown := time.Now(), 0
	for r := range attacker.Attack(vegeta.NewStaticTargeter(targets...), pacer, 0, o.title) {
		o.add(r, start)
		if seconds := int(time.Since(start).Seconds()); seconds > shown {
			shown = seconds
			o.progress(out, time.Since(start))
		}
	}
	o.progress(out, time.Since(start))
	o.metrics.Close()
}

func (o *outcome) add(r *vegeta.Result, start time.Time) {
	o.metrics.Add(r)
	switch r.Code {
	case http.StatusOK:
		o.admitted = append(o.admitted, r.End().Sub(start))
	case http.StatusTooManyRequests:
		o.refused++
	default:
		o.errors++
	}
}

func (o *outcome) progress(out io.Writer, elapsed time.Duration) {
	fmt.Fprintf(out, "  %5.1fs  admitted %6d  refused %6d  errors %6d\n", elapsed.Seconds(), len(o.admitted), o.refused, o.errors)
}

// noErrors is for scenarios in which every request has to be decided.
func (o *outcome) noErrors() {
	if o.errors > 0 {
		o.verdict.wrong("%d answers were errors: %v %v", o.errors, o.metrics.StatusCodes, o.metrics.Errors)
	}
}

// tidy deletes what a run has left on a server that others use too.
func (s *service) tidy(ctx context.Context, settings *settings, l *redislimiter.Limiter, clients int) error {
	if settings.redis == nil {
		return nil
	}
	return s.forget(ctx, l, clients)
}
