// Package processes runs parts of a test in separate processes of the operating system, so that nothing is shared
// between them but the server: no memory, no connection pool, no clock of the Go runtime.
//
// A worker is a function that is registered under a name in a package-level variable. The test binary starts itself
// again, tells the new process the name, and Serve, which TestMain calls first, runs the function in place of the
// tests:
//
//	var count = processes.Register("count", func(ctx context.Context, in Input, begin func()) (Output, error) {
//		rdb := …           // prepare
//		begin()            // returns in all processes together
//		…                  // the part that matters
//	})
//
//	func TestMain(m *testing.M) { processes.Serve(); os.Exit(servers.Main(m)) }
//
//	outputs := count.Run(t, time.Minute, inputs...) // one process for each input
package processes

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"time"
)

// variable names the worker in the environment of a process that is one.
const variable = "REDISLIMITER_TEST_WORKER"

// Worker is a function that can be run in other processes. In and Out travel as JSON.
type Worker[In, Out any] struct {
	name string
}

// Register makes a worker of a function. The name must be unique in the test binary. Call it while package variables
// are initialised, or the process that is to run it does not know it.
//
// The function prepares, calls begin once, which returns when all processes have called it, and does its work. Its
// context ends shortly before the process is killed.
func Register[In, Out any](name string, work func(ctx context.Context, in In, begin func()) (Out, error)) Worker[In, Out] {
	if workers[name] != nil {
		panic(fmt.Sprintf("processes: two workers are named %q", name))
	}
	workers[name] = func(ctx context.Context, input []byte, begin func()) ([]byte, error) {
		var in In
		if err := json.Unmarshal(input, &in); err != nil {
			return nil, fmt.Errorf("input of worker %q: %w", name, err)
		}
		out, err := work(ctx, in, begin)
		if err != nil {
			return nil, err
		}
		return json.Marshal(out)
	}
	return Worker[In, Out]{name: name}
}

// workers is written during initialisation only.
var workers = map[string]func(ctx context.Context, input []byte, begin func()) ([]byte, error){}

// order is what a child is told on its standard input, first of all. A second line tells it to begin, a third one that
// the test has seen enough.
type order struct {
	Deadline time.Time
	Input    json.RawMessage
}

// report is what a child says on its standard output, a line each: that it is ready, then how it ended.
type report struct {
	Ready  bool            `json:",omitempty"`
	Output json.RawMessage `json:",omitempty"`
	Error  string          `json:",omitempty"`
}

// Serve runs a worker and exits, in a process that was started as one. In all others it does nothing.
func Serve() {
	name := os.Getenv(variable)
	if name == "" {
		return
	}
	// The parent reads the reports from standard output: what the worker prints must not get between them.
	out := json.NewEncoder(os.Stdout)
	os.Stdout = os.Stderr
	output, err := serve(name, bufio.NewReader(os.Stdin), out)
	end := report{Output: output}
	if err != nil {
		end.Error = err.Error()
	}
	if err := out.Encode(end); err != nil {
		fmt.Fprintln(os.Stderr, "report to the test:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

func serve(name string, in *bufio.Reader, out *json.Encoder) ([]byte, error) {
	work := workers[name]
	if work == nil {
		return nil, fmt.Errorf("no worker is registered as %q", name)
	}
	line, err := in.ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("read the order: %w", err)
	}
	var o order
	if err := json.Unmarshal(line, &o); err != nil {
		return nil, fmt.Errorf("read the order: %w", err)
	}
	ctx, cancel := context.WithDeadline(context.Background(), o.Deadline)
	defer cancel()
	begun := false
	output, err := work(ctx, o.Input, func() {
		begun = true
		awaitBegin(in, out)
	})
	if err == nil && !begun {
		return nil, errors.New("the worker returned without calling begin")
	}
	return output, err
}

// stopped is closed when the test calls Stop.
var stopped = make(chan struct{})

// Stopped is for workers that go on until the test has seen enough: it is closed when the test calls Group.Stop.
func Stopped() <-chan struct{} { return stopped }

// awaitBegin also ends this process when the test dies, before or after: nobody else would.
func awaitBegin(in io.ByteReader, out *json.Encoder) {
	err := out.Encode(report{Ready: true})
	if err == nil {
		_, err = in.ReadByte()
	}
	if err != nil {
		orphaned(err)
	}
	go func() {
		_, err := in.ReadByte()
		if err == nil {
			close(stopped)
			_, err = in.ReadByte()
		}
		if err != nil {
			orphaned(err)
		}
	}()
}

func orphaned(err error) {
	fmt.Fprintln(os.Stderr, "the test has gone:", err)
	os.Exit(1)
}
