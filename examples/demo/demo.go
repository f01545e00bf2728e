package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"

	"github.com/redis/go-redis/v9"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A demo is everything, in one process.
type demo struct {
	cfg       config
	clockRdb  redis.UniversalClient
	clock     clock
	instances []*instance
	load      *load
	cockpit   *cockpit
	edge      *edge
	tally     *tally
	report    *report

	commands chan command
	over     chan struct{} // closed when the show ends

	limit  redislimiter.Limit // that is enforced
	policy policy
	sum    verdict // of all stretches with one limit
}

// A command is a change of the settings that comes from the page.
type command struct {
	mutate func(*settings)
	done   chan error
}

// start brings everything up but the clients.
func start(ctx context.Context, cfg config, stdout io.Writer) (_ *demo, err error) {
	d := &demo{
		cfg: cfg, limit: cfg.limit, policy: cfg.policy, tally: newTally(),
		commands: make(chan command), over: make(chan struct{}),
	}
	defer func() {
		if err != nil {
			d.stop()
		}
	}()
	if err := cfg.backend.start(); err != nil {
		return nil, err
	}
	d.clockRdb = cfg.backend.client(nil)
	d.clock = clock{d.clockRdb}
	if _, err := d.clock.now(ctx); err != nil {
		return nil, fmt.Errorf("-redis: %v: %w", cfg.backend, err)
	}
	var nodes []*node
	for number := range instanceCount {
		i, err := d.startInstance(ctx, number)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, &node{name: i.name, url: &url.URL{Scheme: "http", Host: i.addr}})
	}
	w := newWire()
	d.load = newLoad(w, d.tally, cfg.limit)
	d.cockpit = newCockpit(nodes, d.load, cfg.settings, cfg.backend.String())
	d.cockpit.change = d.command
	if d.edge, err = newEdge(cfg.addr, true, w, d.cockpit); err != nil {
		return nil, err
	}
	d.cockpit.run()
	d.report = newReport(stdout, cfg)
	return d, nil
}

func (d *demo) startInstance(ctx context.Context, number int) (*instance, error) {
	i, err := newInstance(instanceConfig{
		name: fmt.Sprintf("app-%d", number+1), addr: "127.0.0.1:0", trusted: []string{"127.0.0.1/32"},
		timeout: d.cfg.timeout, settings: d.cfg.settings,
		observe: func(l redislimiter.Allower) redislimiter.Allower { return observed(l, number, d.tally) },
		onError: d.tally.redisFailed,
	}, d.cfg.backend)
	if err != nil {
		return nil, err
	}
	d.instances = append(d.instances, i)
	return i, i.check(ctx)
}

// observed counts the decisions of an instance.
func observed(l redislimiter.Allower, instance int, t *tally) redislimiter.Allower {
	return redislimiter.AllowerFunc(func(ctx context.Context, key string, n int) (redislimiter.Result, error) {
		result, err := l.AllowN(ctx, key, n)
		if err == nil {
			t.decided(decision{instance, key, result.Source, result.Allowed})
		}
		return result, err
	})
}

// command hands a change to the show, which makes it between two of its sums.
func (d *demo) command(ctx context.Context, mutate func(*settings)) error {
	busy := statusError{http.StatusServiceUnavailable, errors.New("the demo is about to end")}
	c := command{mutate, make(chan error, 1)}
	select {
	case d.commands <- c:
		return <-c.done
	case <-d.over:
		return busy
	case <-ctx.Done():
		return busy
	}
}

// change makes a change of the settings.
func (d *demo) change(ctx context.Context, mutate func(*settings)) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), changeTimeout)
	defer cancel()
	err := d.cockpit.apply(ctx, mutate)
	s := d.cockpit.settings()
	d.limit, _ = s.limit() // it was checked
	d.policy, _ = policyOf(s.OnFailure, d.limit, s.Instances)
	return err
}

func (d *demo) connect(ctx context.Context, connected bool) error {
	return d.change(ctx, func(s *settings) { s.Connected = connected })
}

// stop ends everything in the order of the requests' way, so that none is cut
// off, and reports what went wrong on it. Parts that were never started are
// passed over.
func (d *demo) stop() (problems []string) {
	noted := func(what string, err error) {
		if err != nil {
			problems = append(problems, fmt.Sprintf("stopping %s: %v", what, err))
		}
	}
	if d.edge != nil {
		d.cockpit.trials.stop()
		d.load.stop()
		noted("the edge", d.edge.stop())
	}
	for _, i := range d.instances {
		noted(i.name, i.stop())
	}
	if d.clockRdb != nil {
		noted("the clock", d.clockRdb.Close())
	}
	d.cfg.backend.close()
	return problems
}
