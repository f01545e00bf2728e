// The demo runs three instances of a small application behind a round-robin
// edge. They share one limit through Redis. Clients of different manners send
// requests; then Redis is stopped, so that the failure policy shows, and
// started again.
//
//	go run ./examples/demo -for 10s
//
// It needs nothing: Redis is embedded unless -redis names a server. It exits
// with 0 only if the limit held.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/redis/go-redis/v9"
)

func main() {
	redis.SetLogger(quiet{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// quiet keeps go-redis from logging each failed dial between the lines of the
// report, which counts them.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// run is the program without what belongs to the process, so that tests can
// run it. It returns the exit code: 2 for wrong flags, 1 if something failed or
// the limit did not hold.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cfg, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "demo: %v\n", err)
		return 2
	}
	d, err := start(ctx, cfg, stdout)
	if err != nil {
		fmt.Fprintf(stderr, "demo: %v\n", err)
		return 1
	}
	problems := d.show(ctx)
	problems = append(problems, d.stop()...)
	for _, p := range problems {
		fmt.Fprintf(stdout, "PROBLEM: %s\n", p)
	}
	fmt.Fprintf(stdout, "admitted %d of at most %d\n", d.up.admitted, d.up.atMost)
	if len(problems) > 0 {
		return 1
	}
	return 0
}
