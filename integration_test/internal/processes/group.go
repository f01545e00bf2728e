package processes

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"testing"
	"time"
)

// Group is the processes of one run.
type Group[Out any] struct {
	tb       testing.TB
	children []*child
}

// Run runs one process for each input, waits for all of them, and returns their outputs in the order of the inputs.
// It fails the test if one of them fails, dies, or is not done within the given time.
func (w Worker[In, Out]) Run(tb testing.TB, within time.Duration, inputs ...In) []Out {
	tb.Helper()
	outputs, errs := w.Start(tb, within, inputs...).Wait()
	if err := errors.Join(errs...); err != nil {
		tb.Fatal(err)
	}
	return outputs
}

// Start starts one process for each input and returns when all of them have been told to begin. A process that is
// still there after the given time, or at the end of the test, is killed.
func (w Worker[In, Out]) Start(tb testing.TB, within time.Duration, inputs ...In) *Group[Out] {
	tb.Helper()
	if os.Getenv(variable) != "" {
		tb.Fatal("TestMain must call processes.Serve first: this process was started to be a worker")
	}
	deadline := time.Now().Add(within)
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	g := &Group[Out]{tb: tb}
	tb.Cleanup(func() {
		cancel() // kills what is still running
		for _, c := range g.children {
			<-c.done
		}
	})
	for i, in := range inputs {
		input, err := json.Marshal(in)
		if err != nil {
			tb.Fatalf("input of worker %q: %v", w.name, err)
		}
		// The worker ends a little earlier than it is killed, so that it can say what kept it.
		c, err := startChild(ctx, fmt.Sprintf("worker %q, process %d", w.name, i),
			w.name, order{Deadline: deadline.Add(-within / 10), Input: input})
		if err != nil {
			tb.Fatal(err)
		}
		g.children = append(g.children, c)
	}
	g.begin()
	return g
}

// begin waits until all children are ready, so that none works while another is still starting.
func (g *Group[Out]) begin() {
	g.tb.Helper()
	for _, c := range g.children {
		select {
		case <-c.ready:
		case <-c.done:
			g.tb.Fatalf("before begin: %v", c.err)
		}
	}
	for _, c := range g.children {
		c.next()
	}
}

// Stop closes Stopped in all processes. Call it once.
func (g *Group[Out]) Stop() {
	for _, c := range g.children {
		c.next()
	}
}

// Kill ends process i at once (SIGKILL), in the middle of whatever it does, and returns when it is gone.
func (g *Group[Out]) Kill(i int) {
	g.children[i].kill()
	<-g.children[i].done
}

// Wait waits for all processes. Both slices are in the order of the inputs: where the error is nil, the output counts.
func (g *Group[Out]) Wait() ([]Out, []error) {
	outputs, errs := make([]Out, len(g.children)), make([]error, len(g.children))
	for i, c := range g.children {
		<-c.done
		if errs[i] = c.err; c.err != nil {
			continue
		}
		if err := json.Unmarshal(c.output, &outputs[i]); err != nil {
			errs[i] = fmt.Errorf("%s: output: %w", c.name, err)
		}
	}
	return outputs, errs
}
