package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A report writes what happens, as plain text in columns.
type report struct {
	w       io.Writer
	cfg     config
	clients []*client
}

func newReport(w io.Writer, cfg config, clients []*client) *report {
	return &report{w: w, cfg: cfg, clients: clients}
}

func (r *report) printf(format string, args ...any) { fmt.Fprintf(r.w, format, args...) }

// opening tells what runs.
func (r *report) opening(d *demo) {
	for _, i := range d.instances {
		r.printf("%-10s http://%s/\n", i.name, i.addr)
	}
	r.printf("%-10s %s\n", "edge", d.edge.url())
	if d.edge.moved != nil {
		r.printf("%-10s not on %s: %v\n", "", r.cfg.addr, d.edge.moved)
	}
	r.printf("%-10s %v\n", "Redis", d.backend)
	r.printf("%-10s %v; for each client address, all instances together\n", "limit", r.cfg.limit)
	r.printf("%-10s %v\n", "on failure", r.cfg.policy)
	for _, c := range r.clients {
		r.printf("%-10s %-12s %s\n", c.name, c.address, c.manner())
	}
	r.printf("%-10s curl -i %s\n\n", "by hand", d.edge.url())
	up, outage, _ := d.lengths()
	r.printf("== Redis is up, for %v; then it is stopped for %v ==\n", up, outage)
}

const lineFormat = "%6s  %3v %3v  %3v %3v  %3v %3v  %4v %4v  %8v %8v  %8s  %s\n"

// columns are the headings of the lines.
func (r *report) columns() {
	r.printf("%6s  %7s  %7s  %7s  %9s  %17s\n", "", "app-1", "app-2", "app-3", "all", "phase so far")
	r.printf(lineFormat, "time", "ok", "no", "ok", "no", "ok", "no", "ok", "no", "admitted", "at most", "slowest", "decided by")
}

// line is a second: admitted and refused by each instance and by all, then
// what was admitted since the phase began and what can be at most.
func (r *report) line(since time.Duration, second *counts, admitted int, most string) {
	columns := []any{fmt.Sprintf("%.1fs", since.Seconds())}
	for i := range instanceCount {
		columns = append(columns, second.byInstance(i, true), second.byInstance(i, false))
	}
	columns = append(columns, second.of(true), second.of(false), admitted, most, milliseconds(second.slowest), sources(second))
	r.printf(lineFormat, columns...)
}

// up is the sum of the phase with Redis, client by client.
func (r *report) up(c *counts, v verdict, span time.Duration) {
	r.printf("\nRedis was up for %.2fs by its clock.\n", span.Seconds())
	r.printf("  %-8s %-12s %9s %9s %9s\n", "client", "address", "admitted", "refused", "at most")
	each := atMost(r.cfg.limit, span)
	keys := c.keys(redislimiter.SourceRedis)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		admitted, refused := c.byClient(key, redislimiter.SourceRedis, true), c.byClient(key, redislimiter.SourceRedis, false)
		r.printf("  %-8s %-12s %9d %9d %9d\n", r.nameOf(key), key, admitted, refused, each)
	}
	r.printf("  %-21s %9d %9s %9d\n", "all", v.admitted, "", v.atMost)
	if other := c.of(true) + c.of(false) - c.bySource(redislimiter.SourceRedis); other > 0 {
		r.printf("  Redis gave no decision in time for %d others (%v); the policy decided: %s.\n", other, c.failure, sources(c))
	}
	r.answers(c)
}

// nameOf tells who has an address. Anybody else came by hand.
func (r *report) nameOf(key string) string {
	for _, c := range r.clients {
		if c.address.String() == key {
			return c.name
		}
	}
	return "by hand"
}

func (r *report) stopped(b backend) {
	if _, ours := b.(*embedded); ours {
		r.printf("\n== Redis is stopped ==\n")
		return
	}
	r.printf("\n== The connection to Redis is cut; the server is left alone ==\n")
}

// outage is what the policy did.
func (r *report) outage(c *counts, v verdict, span time.Duration) {
	r.printf("\nRedis was away for %.2fs. Policy %v.\n", span.Seconds(), r.cfg.policy)
	source := r.cfg.policy.source
	admitted, all := c.admitted(source), c.bySource(source)
	r.printf("  decided by %v: %d, of which admitted %d, refused %d; to be admitted at most: %s\n",
		source, all, admitted, all-admitted, r.cfg.policy.most(v))
	if before := c.bySource(redislimiter.SourceRedis); before > 0 {
		r.printf("  decided by redis: %d, in the moment before it stopped\n", before)
	}
	r.printf("  Redis was asked in vain %d times; all others were decided at once\n", c.failures)
	r.answers(c)
}

func (r *report) restored() { r.printf("\n== Redis is back ==\n") }

// back is how soon the instances returned to Redis.
func (r *report) back(c *counts, v verdict, span time.Duration, instances []*instance) {
	r.printf("\nDecisions come from Redis again:\n")
	for i, first := range c.firstByRedis {
		if first == 0 {
			r.printf("  %s not yet\n", instances[i].name)
			continue
		}
		r.printf("  %s after %s\n", instances[i].name, milliseconds(first))
	}
	r.printf("  by Redis, %d were admitted in %.2fs, and %d could be at most\n", v.admitted, span.Seconds(), v.atMost)
	if r.cfg.redis == nil {
		r.printf("  (this Redis kept its data; one that loses it gives each client a full burst once more,\n")
		r.printf("  which is within the numbers above, because they are for each phase alone)\n")
	}
	r.answers(c)
	r.printf("\n")
}

// answers are what the clients got.
func (r *report) answers(c *counts) {
	var parts []string
	for _, status := range slices.Sorted(maps.Keys(c.statuses)) {
		parts = append(parts, fmt.Sprintf("%d × %d", c.statuses[status], status))
	}
	r.printf("  answers: %s; the slowest took %s\n", strings.Join(parts, ", "), milliseconds(c.slowest))
}

// sources are who decided, and how often.
func sources(c *counts) string {
	var parts []string
	for source := redislimiter.SourceNone; source <= redislimiter.SourceClosed; source++ {
		if n := c.bySource(source); n > 0 {
			parts = append(parts, fmt.Sprintf("%v %d", source, n))
		}
	}
	if len(parts) == 0 {
		return "nobody"
	}
	return strings.Join(parts, ", ")
}

func milliseconds(d time.Duration) string {
	return fmt.Sprintf("%.1fms", float64(d.Microseconds())/1000)
}
