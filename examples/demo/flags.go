package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"net/url"
	"os"
	"strings"
	"time"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// instanceCount is how many instances of the application run in one process.
const instanceCount = 3

// shortest is what is needed to see an outage and the recovery from it: a
// Fallback leaves Redis alone for a quarter of a second at a time.
const shortest = 3 * time.Second

// config is what the flags say, checked.
type config struct {
	role     string
	settings settings
	limit    redislimiter.Limit
	policy   policy
	backend  *backend
	addr     string
	name     string   // of an instance
	nodes    []*node  // of an edge
	trusted  []string // networks that an instance believes
	length   time.Duration
	timeout  time.Duration // of a decision
	health   string        // only ask this URL
}

// values are the flags as they were given.
type values struct {
	algorithm, onFailure, redis, addr    string
	role, name, instances, trust, health string
	rate, burst                          int
	per, length, timeout                 time.Duration
	burstGiven                           bool
}

// environment is what the variables begin with that set flags.
const environment = "DEMO_"

func (v *values) flags() *flag.FlagSet {
	flags := flag.NewFlagSet("demo", flag.ContinueOnError)
	flags.SetOutput(io.Discard) // errors are printed once, by the caller
	flags.StringVar(&v.algorithm, "algorithm", "bucket", "how to count: window, counter, log, bucket, gcra or leaky")
	flags.IntVar(&v.rate, "rate", 10, "requests that each client may make every -per")
	flags.DurationVar(&v.per, "per", time.Second, "the period of -rate")
	flags.IntVar(&v.burst, "burst", 20, "size of a bucket: requests that may come at once")
	flags.StringVar(&v.onFailure, "on-failure", "local", "what to do while Redis is away: open, closed or local")
	flags.StringVar(&v.redis, "redis", "", "`URL` of a real server, such as redis://localhost:6379, or of a Cluster, redis://host1:6379?addr=host2:6379; without it Redis is embedded")
	flags.StringVar(&v.addr, "addr", "127.0.0.1:8080", "where the edge listens, or the instance if that is the role")
	flags.DurationVar(&v.timeout, "timeout", redislimiter.DefaultTimeout, "how long a decision may take before -on-failure decides")
	flags.DurationVar(&v.length, "for", 0, "how long to run, with an outage of Redis in the middle; without it until interrupted")
	flags.StringVar(&v.role, "role", "all", "all in one process, or only an instance, or only the edge")
	flags.StringVar(&v.name, "name", "app-1", "name of the instance, of -role instance")
	flags.StringVar(&v.instances, "instances", "", "the instances of -role edge, such as http://app-1:8080,http://app-2:8080")
	flags.StringVar(&v.trust, "trust", "127.0.0.1/32", "networks whose X-Forwarded-For is believed, of -role instance")
	flags.StringVar(&v.health, "health", "", "only ask this `URL`, and exit with 0 if the answer is 200")
	return flags
}

// parse reads the flags, and where there is none the environment: DEMO_RATE for
// -rate. Its errors begin with the name of either.
func parse(args []string, stderr io.Writer) (config, error) {
	var v values
	flags := v.flags()
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			flags.SetOutput(stderr)
			flags.Usage()
			fmt.Fprintf(stderr, "Every flag can be set by the environment too: %sON_FAILURE for -on-failure.\n", environment)
		}
		return config{}, err
	}
	if flags.NArg() > 0 {
		return config{}, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}
	given := map[string]bool{}
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	v.burstGiven = given["burst"]
	var err error
	flags.VisitAll(func(f *flag.Flag) {
		name := environment + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if text := os.Getenv(name); text != "" && !given[f.Name] && err == nil {
			if e := flags.Set(f.Name, text); e != nil {
				err = fmt.Errorf("%s: %q: %w", name, text, e)
			}
		}
	})
	if err != nil {
		return config{}, err
	}
	return v.check()
}

func (v values) check() (cfg config, err error) {
	cfg = config{role: v.role, addr: v.addr, name: v.name, length: v.length, timeout: v.timeout, health: v.health}
	if err := v.checkRole(&cfg); err != nil {
		return cfg, err
	}
	if err := v.checkSettings(&cfg); err != nil {
		return cfg, err
	}
	if cfg.backend, err = parseBackend(v.redis); err != nil {
		return cfg, fmt.Errorf("-redis: %w", err)
	}
	if _, _, err := net.SplitHostPort(v.addr); err != nil {
		return cfg, fmt.Errorf("-addr: %w", err)
	}
	if v.timeout <= 0 {
		return cfg, fmt.Errorf("-timeout: %v, must be above 0", v.timeout)
	}
	if v.length != 0 && v.length < shortest {
		return cfg, fmt.Errorf("-for: %v is too short, must be at least %v", v.length, shortest)
	}
	if u, err := url.Parse(v.health); v.health != "" && (err != nil || u.Host == "") {
		return cfg, fmt.Errorf("-health: %q, must be a URL", v.health)
	}
	return cfg, nil
}

func (v values) checkRole(cfg *config) error {
	switch {
	case v.role != "all" && v.role != "instance" && v.role != "edge":
		return fmt.Errorf("-role: %q, must be all, instance or edge", v.role)
	case v.role != "all" && v.length != 0:
		return fmt.Errorf("-for: only -role all ends by itself")
	case v.role == "instance" && v.redis == "":
		return fmt.Errorf("-redis: missing, -role instance shares a server with others")
	case v.role == "edge" && v.instances == "":
		return fmt.Errorf("-instances: missing, -role edge needs some")
	}
	cfg.trusted = strings.Split(v.trust, ",")
	if _, err := middleware.ParseProxies(cfg.trusted...); err != nil {
		return fmt.Errorf("-trust: %w", err)
	}
	if v.role != "edge" {
		return nil
	}
	for _, text := range strings.Split(v.instances, ",") {
		n, err := parseNode(text)
		if err != nil {
			return fmt.Errorf("-instances: %w", err)
		}
		cfg.nodes = append(cfg.nodes, n)
	}
	return nil
}

func (v values) checkSettings(cfg *config) error {
	if a, err := algorithmOf(v.algorithm); err == nil && !a.hasBurst && v.burstGiven {
		return fmt.Errorf("-burst: -algorithm %s has none", v.algorithm)
	}
	cfg.settings = settings{
		Algorithm: v.algorithm, Rate: v.rate, Per: span(v.per), Burst: v.burst,
		OnFailure: v.onFailure, Connected: true, Instances: instanceCount,
	}
	if len(cfg.nodes) > 0 {
		cfg.settings.Instances = len(cfg.nodes)
	}
	var err error
	if cfg.limit, err = cfg.settings.limit(); err != nil {
		return fmt.Errorf("-%w", err)
	}
	if cfg.policy, err = policyOf(v.onFailure, cfg.limit, cfg.settings.Instances); err != nil {
		return fmt.Errorf("-%w", err)
	}
	return nil
}
