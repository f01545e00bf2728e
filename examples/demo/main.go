// The demo runs three instances of a small application behind a round-robin
// edge. They share one limit through Redis. Clients of different manners send
// requests, and a page shows live what becomes of them; on it everything can be
// changed while it runs, and Redis be cut off.
//
//	go run ./examples/demo            # the page, until Ctrl-C
//	go run ./examples/demo -for 10s   # with an outage in the middle, and a sum at the end
//
// It needs nothing: Redis is embedded unless -redis names a server. It exits
// with 0 only if the limit held.
//
// With -role the parts run in processes of their own: see docker-compose.yml.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/signal"
	"syscall"
	"time"

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
	switch {
	case cfg.health != "":
		err = healthy(ctx, cfg.health)
	case cfg.role == "instance":
		err = runInstance(ctx, cfg, stdout)
	case cfg.role == "edge":
		err = runEdge(ctx, cfg, stdout)
	default:
		return runAll(ctx, cfg, stdout, stderr)
	}
	if err != nil {
		fmt.Fprintf(stderr, "demo: %v\n", err)
		return 1
	}
	return 0
}

// runAll runs everything in this process, and sums up at the end.
func runAll(ctx context.Context, cfg config, stdout, stderr io.Writer) int {
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
	fmt.Fprintf(stdout, "admitted %d of at most %d\n", d.sum.admitted, d.sum.atMost)
	if len(problems) > 0 {
		return 1
	}
	return 0
}

// healthy is for containers that hold nothing but this program.
func healthy(ctx context.Context, url string) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("-health: %s answers %s", url, response.Status)
	}
	return nil
}
