package main

import (
	"context"
	"fmt"
	"io"
	"sync"

	"github.com/redis/go-redis/v9"
)

// A demo is everything that runs.
type demo struct {
	cfg       config
	backend   backend
	clockRdb  *redis.Client
	clock     clock
	instances []*instance
	edge      *edge
	clients   []*client
	tally     *tally
	report    *report

	driving sync.WaitGroup
	dismiss context.CancelFunc // tells the clients to stop

	up verdict // of the phase with Redis up
}

// start brings everything up but the clients.
func start(ctx context.Context, cfg config, stdout io.Writer) (_ *demo, err error) {
	d := &demo{cfg: cfg, tally: newTally(), dismiss: func() {}}
	defer func() {
		if err != nil {
			d.stop()
		}
	}()
	if d.backend, err = newBackend(cfg.redis); err != nil {
		return nil, err
	}
	d.clockRdb = d.backend.client()
	d.clock = clock{d.clockRdb}
	if _, err := d.clock.now(ctx); err != nil {
		return nil, fmt.Errorf("-redis: %v: %w", d.backend, err)
	}
	for number := range instanceCount {
		i, err := newInstance(ctx, number, cfg, d.backend, d.tally)
		if err != nil {
			return nil, err
		}
		d.instances = append(d.instances, i)
	}
	if d.edge, err = newEdge(cfg.addr, d.instances); err != nil {
		return nil, err
	}
	d.clients = newClients(cfg.limit, d.edge.wire)
	d.report = newReport(stdout, cfg, d.clients)
	return d, nil
}

// send lets the clients loose.
func (d *demo) send() {
	// They are dismissed by stop, not by an interrupt: the report of a phase
	// that is cut short is made up while they go on.
	ctx, cancel := context.WithCancel(context.Background())
	d.dismiss = cancel
	for _, c := range d.clients {
		d.driving.Go(func() { c.drive(ctx, d.tally) })
	}
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
	d.dismiss()
	d.driving.Wait()
	if d.edge != nil {
		noted("the edge", d.edge.stop())
	}
	for _, i := range d.instances {
		noted(i.name, i.stop())
	}
	if d.backend != nil {
		if d.clockRdb != nil {
			noted("the clock", d.clockRdb.Close())
		}
		d.backend.close()
	}
	return problems
}
