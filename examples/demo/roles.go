package main

import (
	"context"
	"fmt"
	"io"
)

// runInstance runs one instance until ctx is done. It starts without Redis too:
// then the failure policy decides, as when Redis goes away later.
func runInstance(ctx context.Context, cfg config, stdout io.Writer) error {
	i, err := newInstance(instanceConfig{
		name: cfg.name, addr: cfg.addr, trusted: cfg.trusted, timeout: cfg.timeout, settings: cfg.settings,
	}, cfg.backend)
	if err != nil {
		return err
	}
	fmt.Fprintf(stdout, "%s on %s, %v, Redis: %v\n", i.name, i.addr, cfg.limit, cfg.backend)
	if err := i.check(ctx); err != nil {
		fmt.Fprintf(stdout, "%s: starting nevertheless: %v\n", i.name, err)
	}
	<-ctx.Done()
	return i.stop()
}

// runEdge runs the load balancer, the page and the clients until ctx is done.
func runEdge(ctx context.Context, cfg config, stdout io.Writer) error {
	w := newWire()
	l := newLoad(w, newTally(), cfg.limit)
	c := newCockpit(cfg.nodes, l, cfg.settings, "behind the instances")
	e, err := newEdge(cfg.addr, false, w, c)
	if err != nil {
		return err
	}
	c.run()
	l.send()
	fmt.Fprintf(stdout, "page %s\n", e.url())
	<-ctx.Done()
	c.trials.stop()
	l.stop()
	return e.stop()
}
