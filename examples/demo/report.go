package main

import (
	"cmp"
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
	w     io.Writer
	cfg   config
	names map[string]string // of clients, by address
}

func newReport(w io.Writer, cfg config) *report {
	return &report{w: w, cfg: cfg, names: map[string]string{}}
}

func (r *report) printf(format string, args ...any) { fmt.Fprintf(r.w, format, args...) }

// opening tells what runs.
func (r *report) opening(d *demo) {
	r.printf("%-10s %s\n", "page", d.edge.url())
	if d.edge.moved != nil {
		r.printf("%-10s not on %s: %v\n", "", r.cfg.addr, d.edge.moved)
	}
	for _, i := range d.instances {
		r.printf("%-10s http://%s/hello\n", i.name, i.addr)
	}
	r.printf("%-10s %v\n", "Redis", r.cfg.backend)
	r.printf("%-10s %v; for each client address, all instances together\n", "limit", r.cfg.limit)
	r.printf("%-10s %v\n", "on failure", r.cfg.policy)
	_, clients := d.load.state()
	for _, c := range clients {
		r.names[c.address.String()] = c.name
		r.printf("%-10s %-12s %s\n", c.name, c.address, c.manner())
	}
	r.printf("%-10s curl -i %shello\n\n", "by hand", d.edge.url())
	if r.cfg.length > 0 {
		up, outage, _ := d.lengths()
		r.printf("== Redis is up, for %v; then it is cut off for %v ==\n", up, outage)
	}
}

// taken tells that the script is over.
func (r *report) taken() {
	r.printf("\n== Settings are changed by hand: no more is done by itself ==\n")
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
	r.printf("\nWhat Redis decided in %.2fs by its clock:\n", span.Seconds())
	r.printf("  %-8s %-12s %9s %9s %9s\n", "client", "address", "admitted", "refused", "at most")
	keys := c.keys(redislimiter.SourceRedis)
	each := v.atMost / max(int64(len(keys)), 1)
	for _, key := range slices.Sorted(maps.Keys(keys)) {
		admitted, refused := c.byClient(key, redislimiter.SourceRedis, true), c.byClient(key, redislimiter.SourceRedis, false)
		r.printf("  %-8s %-12s %9d %9d %9d\n", r.nameOf(key), key, admitted, refused, each)
	}
	r.printf("  %-21s %9d %9s %9d\n", "all", v.admitted, "", v.atMost)
	if c.failures > 0 {
		r.printf("  Redis gave no decision in time to %d (%v); all decisions: %s\n", c.failures, c.failure, sources(c))
	}
	r.answers(c)
}

// nameOf tells who has an address. Anybody else came by hand, or from the page.
func (r *report) nameOf(key string) string { return cmp.Or(r.names[key], "by hand") }

func (r *report) cut() {
	if r.cfg.backend.embedded != nil {
		r.printf("\n== Redis is cut off ==\n")
		return
	}
	r.printf("\n== Redis is cut off; the server is left alone ==\n")
}

// outage is what the policy did.
func (r *report) outage(c *counts, v verdict, span time.Duration, p policy) {
	r.printf("\nRedis was away for %.2fs. Policy %v.\n", span.Seconds(), p)
	source := p.source
	admitted, all := c.admitted(source), c.bySource(source)
	r.printf("  decided by %v: %d, of which admitted %d, refused %d; to be admitted at most: %s\n",
		source, all, admitted, all-admitted, p.most(v))
	if before := c.bySource(redislimiter.SourceRedis); before > 0 {
		r.printf("  decided by redis: %d, in the moment before\n", before)
	}
	r.printf("  Redis was asked in vain %d times; all others were decided at once\n", c.failures)
	r.answers(c)
}

func (r *report) restored() { r.printf("\n== Redis is back ==\n") }

// back is how soon the instances returned to Redis.
func (r *report) back(c *counts, v verdict, span time.Duration) {
	r.printf("\nDecisions come from Redis again:\n")
	for i, first := range c.firstByRedis {
		if first == 0 {
			r.printf("  %s not yet\n", fmt.Sprintf("app-%d", i+1))
			continue
		}
		r.printf("  %s after %s\n", fmt.Sprintf("app-%d", i+1), milliseconds(first))
	}
	r.printf("  by Redis, %d were admitted in %.2fs, and %d could be at most\n", v.admitted, span.Seconds(), v.atMost)
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
