package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// instanceCount is how many instances of the application run.
const instanceCount = 3

// shortest is what is needed to see an outage and the recovery from it: a
// Fallback leaves Redis alone for a quarter of a second at a time.
const shortest = 3 * time.Second

// config is what the flags say, checked.
type config struct {
	limit   redislimiter.Limit
	policy  policy
	redis   *redis.Options // nil: an embedded server
	addr    string
	length  time.Duration // 0: until interrupted
	timeout time.Duration // of a decision
}

// values are the flags as they were given.
type values struct {
	algorithm, onFailure, redis, addr string
	rate, burst                       int
	per, length, timeout              time.Duration
	burstGiven                        bool
}

// parse reads the flags. Its errors begin with the name of the flag.
func parse(args []string, stderr io.Writer) (config, error) {
	var v values
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are printed once, by the caller
	flags.StringVar(&v.algorithm, "algorithm", "bucket", "how to count: bucket (TokenBucket) or log (SlidingWindowLog)")
	flags.IntVar(&v.rate, "rate", 10, "requests that each client may make every -per")
	flags.DurationVar(&v.per, "per", time.Second, "the period of -rate")
	flags.IntVar(&v.burst, "burst", 20, "size of the bucket: requests that may come at once")
	flags.StringVar(&v.onFailure, "on-failure", "local", "what to do while Redis is away: open, closed or local")
	flags.StringVar(&v.redis, "redis", "", "URL of a real server, such as redis://localhost:6379; without it Redis is embedded")
	flags.StringVar(&v.addr, "addr", "127.0.0.1:8080", "where the edge listens")
	flags.DurationVar(&v.timeout, "timeout", redislimiter.DefaultTimeout, "how long a decision may take before -on-failure decides")
	flags.DurationVar(&v.length, "for", 0, "how long to run; without it until interrupted")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(stderr)
			flags.Usage()
		}
		return config{}, err
	}
	if flags.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	flags.Visit(func(f *flag.Flag) { v.burstGiven = v.burstGiven || f.Name == "burst" })
	return v.check()
}

func (v values) check() (cfg config, err error) {
	if cfg.limit, err = v.limit(); err != nil {
		return cfg, err
	}
	if cfg.policy, err = policyOf(v.onFailure, cfg.limit); err != nil {
		return cfg, err
	}
	if cfg.redis, err = v.redisOptions(); err != nil {
		return cfg, err
	}
	if _, _, err := net.SplitHostPort(v.addr); err != nil {
		return cfg, fmt.Errorf("-addr: %w", err)
	}
	if v.timeout <= 0 {
		return cfg, fmt.Errorf("-timeout: %v, must be above 0", v.timeout)
	}
	cfg.timeout = v.timeout
	if v.length != 0 && v.length < shortest {
		return cfg, fmt.Errorf("-for: %v is too short, must be at least %v", v.length, shortest)
	}
	cfg.addr, cfg.length = v.addr, v.length
	return cfg, nil
}

func (v values) limit() (redislimiter.Limit, error) {
	var limit redislimiter.Limit
	switch {
	case v.rate < 1:
		return limit, fmt.Errorf("-rate: %d, must be at least 1", v.rate)
	case v.per <= 0:
		return limit, fmt.Errorf("-per: %v, must be above 0", v.per)
	case v.burst < 1:
		return limit, fmt.Errorf("-burst: %d, must be at least 1", v.burst)
	}
	switch v.algorithm {
	case "bucket":
		limit = redislimiter.TokenBucket(v.rate, v.per, v.burst)
	case "log":
		if v.burstGiven {
			return limit, errors.New("-burst: only -algorithm bucket has one")
		}
		limit = redislimiter.SlidingWindowLog(v.rate, v.per)
	default:
		return limit, fmt.Errorf("-algorithm: %q, must be bucket or log", v.algorithm)
	}
	// The library knows the rest of what a limit has to be.
	if _, err := redislimiter.NewMemory(limiterName, limit); err != nil {
		return limit, fmt.Errorf("-rate, -per, -burst: %w", err)
	}
	return limit, nil
}

func (v values) redisOptions() (*redis.Options, error) {
	if v.redis == "" {
		return nil, nil
	}
	options, err := redis.ParseURL(v.redis)
	if err != nil {
		// An url.Error quotes the whole URL, with the password in it.
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err
		}
		return nil, fmt.Errorf("-redis: %w", err)
	}
	return options, nil
}
