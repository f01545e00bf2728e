// Loadtest puts load on a net/http server with this library's middleware and
// checks the arithmetic of the limits:
//
//   - one client that blasts a token bucket gets its capacity, then a trickle at
//     the refill rate: within 1 % of capacity + rate × time, less what a full
//     bucket cannot take back while the client is too slow to ask;
//   - one that blasts a sliding window log never gets more than the limit in any
//     window;
//   - ten thousand clients get each exactly what is theirs;
//   - the connections to Redis are cut in the middle, and new ones refused for a
//     while: the failure policy decides meanwhile, and the limit holds before and
//     after.
//
// It prints progress, a table at the end, and writes a picture, loadtest.svg unless
// -svg says otherwise. It exits with 0 only if everything held, with 2 if it was
// called wrongly.
//
//	go run . -quick
//	go run . -for 10s -redis redis://localhost:6379
//
// Redis is embedded unless -redis names a server. The embedded one looks at all
// its keys for each command, so there are two thousand clients then. Either goes
// on running while it cannot be reached. Keys have a name of their own for each
// run.
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
	"time"

	"github.com/redis/go-redis/v9"
)

func main() {
	redis.SetLogger(quiet{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// quiet keeps go-redis from logging each failed dial between the lines of the
// report.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// How many clients there are when there are many: more take minutes on an
// embedded server.
const manyClients, manyEmbedded = 10_000, 2_000

// settings are what the flags say, checked.
type settings struct {
	length  time.Duration // of each scenario
	clients int
	rate    int // per second
	burst   int
	redis   *redis.Options // nil: an embedded server
	svg     string
}

// run is the program without what belongs to the process, so that tests can
// run it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	s, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintf(stderr, "loadtest: %v\n", err)
		return 2
	}
	if s.redis == nil {
		fmt.Fprintf(stdout, "Redis is embedded: many clients are %d here, and %d with -redis unless -clients says otherwise\n", s.clients, manyClients)
	}
	outcomes, err := s.all(ctx, stdout)
	if err == nil && s.svg != "" {
		if err = picture(s.svg, outcomes); err == nil {
			fmt.Fprintf(stdout, "\nadmitted over time: %s\n", s.svg)
		}
	}
	if err != nil {
		fmt.Fprintf(stderr, "loadtest: %v\n", err)
		return 1
	}
	if !table(stdout, outcomes) {
		return 1
	}
	return 0
}

func parse(args []string, stderr io.Writer) (*settings, error) {
	s := &settings{}
	flags := flag.NewFlagSet("loadtest", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are printed once, by the caller
	flags.DurationVar(&s.length, "for", 10*time.Second, "how long each scenario takes, at least 1s")
	flags.IntVar(&s.clients, "clients", 0, fmt.Sprintf("how many clients there are when there are many; 0 means %d, or %d where Redis is embedded", manyClients, manyEmbedded))
	flags.IntVar(&s.rate, "rate", 100, "what one client may do in a second, at least 10; five times as much is asked for")
	flags.IntVar(&s.burst, "burst", 200, "capacity of the bucket; at least the rate, so that a pause of the machine does not fill it")
	flags.StringVar(&s.svg, "svg", "loadtest.svg", "where to draw what was admitted; empty: nowhere")
	url := flags.String("redis", "", "URL of a real server, such as redis://localhost:6379; without it Redis is embedded")
	quick := flags.Bool("quick", false, "shorthand for -for 2s -clients 1000")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(stderr)
			flags.Usage()
		}
		return nil, err
	}
	switch {
	case *quick:
		s.length, s.clients = 2*time.Second, 1000
	case s.clients == 0 && *url == "":
		s.clients = manyEmbedded
	case s.clients == 0:
		s.clients = manyClients
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	case s.length < time.Second:
		return nil, fmt.Errorf("-for: %v, must be at least 1s", s.length)
	case s.clients < 1:
		return nil, fmt.Errorf("-clients: %d, must not be negative", s.clients)
	case s.rate < 10:
		return nil, fmt.Errorf("-rate: %d, must be at least 10", s.rate)
	case s.burst < s.rate:
		return nil, fmt.Errorf("-burst: %d, must be at least the rate, %d", s.burst, s.rate)
	case *url == "":
		return s, nil
	}
	options, err := redis.ParseURL(*url)
	if err != nil { // its text may hold a part of the password
		return nil, errors.New("-redis: not a URL such as redis://user:password@localhost:6379/0")
	}
	s.redis = options
	return s, nil
}
