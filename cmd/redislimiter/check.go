package main

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

type checkCommand struct {
	Name string `arg:"" optional:"" default:"check" help:"Name of the limiter to try, where ACLs allow only some keys (${default})."`
	limits
	server
}

// Help is what --help says about the command.
func (*checkCommand) Help() string {
	return `Tries what decisions need, on every primary: a connection, a version, scripts that load and run under this user's ACL, by charges that are deleted again under a key that no caller can name. Without limits every algorithm is tried. It says where keys may be evicted, and how long a decision takes from here. The exit code is 1 if anything has failed; a warning is none.` + limitHelp
}

// Validate names what is wrong before anything is sent.
func (c *checkCommand) Validate() error {
	return cmp.Or(checkName(c.Name), c.limits.valid(), c.server.valid())
}

// A checkup is everything that was tried.
type checkup struct {
	Server string  `json:"server"`
	Checks []check `json:"checks"`
}

// A check is one thing that was tried.
type check struct {
	What   string `json:"what"`
	Status string `json:"status"` // ok, warning or failed
	Detail string `json:"detail"`
}

func (c *checkCommand) run(ctx context.Context, timeout time.Duration) (report, error) {
	client, to, err := c.open(timeout)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	r := &checkup{Server: to.name}
	if !r.nodes(ctx, client, to) {
		return r, r.failed()
	}
	limiters, err := c.orSamples()
	if err != nil {
		return nil, err
	}
	for _, l := range limiters {
		if err := r.limiter(ctx, client, to, c.Name, l.values()); err != nil {
			return nil, err
		}
	}
	if err := r.failed(); err != nil {
		return r, err
	}
	return r, r.latency(ctx, client, c.Name, limiters[0].values(), timeout)
}

func (r *checkup) add(what string, status string, format string, args ...any) {
	r.Checks = append(r.Checks, check{what, status, withoutPasswords(fmt.Sprintf(format, args...))})
}

func (r *checkup) failed() error {
	n := 0
	for _, c := range r.Checks {
		if c.Status == "failed" {
			n++
		}
	}
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d checks failed", n, len(r.Checks))
}

// nodes looks at every primary. It reports whether they can be talked to.
func (r *checkup) nodes(ctx context.Context, client redis.UniversalClient, to *target) bool {
	var mu sync.Mutex
	err := eachNode(ctx, client, func(ctx context.Context, node *redis.Client) error {
		start := time.Now()
		if err := node.Ping(ctx).Err(); err != nil {
			return err
		}
		took := time.Since(start)
		info := infoOf(ctx, node)
		mu.Lock()
		defer mu.Unlock()
		addr := node.Options().Addr
		r.add("connection to "+addr, "ok", "answers in %v", took.Round(10*time.Microsecond))
		r.version(addr, info)
		r.eviction(addr, info)
		return nil
	})
	if err != nil {
		r.add("connection", "failed", "%v", to.explain(err))
	}
	return err == nil
}

// infoOf reads what a node says about itself; empty where it may not be asked.
func infoOf(ctx context.Context, node *redis.Client) map[string]string {
	info := map[string]string{}
	for _, section := range []string{"server", "memory"} {
		lines := bufio.NewScanner(strings.NewReader(node.Info(ctx, section).Val()))
		for lines.Scan() {
			if name, value, ok := strings.Cut(lines.Text(), ":"); ok {
				info[name] = value
			}
		}
	}
	return info
}

func (r *checkup) version(addr string, info map[string]string) {
	product, version, oldest := "Redis", info["redis_version"], 7
	if v, ok := info["valkey_version"]; ok {
		product, version, oldest = "Valkey", v, 8
	}
	major, _, _ := strings.Cut(version, ".")
	switch n, err := strconv.Atoi(major); {
	case err != nil:
		r.add("version of "+addr, "warning", "unknown: INFO does not tell")
	case n < oldest:
		r.add("version of "+addr, "warning", "%s %s, tested are Redis from 7.0 and Valkey from 8.1", product, version)
	default:
		r.add("version of "+addr, "ok", "%s %s", product, version)
	}
}

func (r *checkup) eviction(addr string, info map[string]string) {
	policy, what := info["maxmemory_policy"], "eviction on "+addr
	switch {
	case policy == "":
		r.add(what, "warning", "unknown: INFO does not tell")
	case policy == "noeviction":
		r.add(what, "ok", "none (maxmemory-policy noeviction)")
	case info["maxmemory"] == "0":
		r.add(what, "ok", "none, memory has no bound (maxmemory 0)")
	default:
		r.add(what, "warning", "maxmemory-policy %s: when memory is full, keys are forgotten early and their clients start afresh", policy)
	}
}

// limiter has the library check itself for one limiter.
func (r *checkup) limiter(ctx context.Context, client redis.UniversalClient, to *target, name string, limits []redislimiter.Limit) error {
	l, err := redislimiter.New(client, name, limits...)
	if err != nil {
		return err
	}
	var words []string
	for _, limit := range limits {
		words = append(words, limit.Algorithm())
	}
	what := strings.Join(words, " + ")
	switch err := l.Check(ctx); {
	case errors.Is(err, redislimiter.ErrMisconfigured):
		r.add(what, "failed", "%v (it will not mend itself: password, ACL, memory or a key of another type)", to.explain(err))
	case err != nil:
		r.add(what, "failed", "%v", to.explain(err))
	default:
		r.add(what, "ok", "scripts loaded, charged and deleted")
	}
	return nil
}

// latency looks twenty times: that takes what decisions take, and writes nothing.
func (r *checkup) latency(ctx context.Context, client redis.UniversalClient, name string, limits []redislimiter.Limit, timeout time.Duration) error {
	l, err := redislimiter.New(client, name, limits...)
	if err != nil {
		return err
	}
	l.Timeout = timeout
	var took []time.Duration
	for range 20 {
		start := time.Now()
		if _, err := l.AllowN(ctx, "check", 0); err != nil {
			r.add("time of a decision", "failed", "%v", err)
			return r.failed()
		}
		took = append(took, time.Since(start))
	}
	slices.Sort(took)
	median, status := took[len(took)/2], "ok"
	if took[len(took)-1] > redislimiter.DefaultTimeout/2 {
		status = "warning"
	}
	r.add("time of a decision", status, "%v (median of %d), at most %v; a limiter gives up after %v unless told otherwise",
		median.Round(10*time.Microsecond), len(took), took[len(took)-1].Round(10*time.Microsecond), redislimiter.DefaultTimeout)
	return nil
}

func (r *checkup) text(w io.Writer) {
	fmt.Fprintf(w, "redis %s\n\n", r.Server)
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	for _, c := range r.Checks {
		fmt.Fprintf(table, "%s\t%s\t%s\n", c.Status, c.What, c.Detail)
	}
	_ = table.Flush() // w remembers its error
}
