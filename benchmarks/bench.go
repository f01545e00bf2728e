package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/load"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/peers"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/report"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/server"
)

// A bench is one run.
type bench struct {
	*settings
	out     io.Writer
	server  *server.Server
	clients map[string]*redis.Client
	results map[cell]rounds
	scripts rounds             // server time, one at a time
	scalars map[string]float64 // what has no rounds: bytes, growth
	plots   plots
}

// A cell is a kind of traffic from so many callers.
type cell struct {
	traffic string
	callers int
}

func newBench(ctx context.Context, s *settings, out io.Writer) (*bench, error) {
	b := &bench{settings: s, out: out, clients: map[string]*redis.Client{}, results: map[cell]rounds{}, scalars: map[string]float64{}}
	var err error
	if s.redis != "" {
		b.server, err = server.Use(ctx, s.redis)
	} else {
		b.server, err = server.Start(ctx)
	}
	return b, err
}

func (b *bench) close() {
	for _, client := range b.clients {
		client.Close()
	}
	b.server.Stop()
}

// client is the limiter's own, kept for the run: connections are opened once.
func (b *bench) client(name string) *redis.Client {
	if b.clients[name] == nil {
		b.clients[name] = peers.Client(b.server.Addr, b.pool)
	}
	return b.clients[name]
}

// describe says what was measured on.
func (b *bench) describe(ctx context.Context) error {
	version := ""
	for _, info := range []string{"redis_version", "valkey_version"} {
		if v := b.server.Fact(ctx, "server", info); v != "" {
			version = info + " " + v
		}
	}
	if version == "" {
		return fmt.Errorf("%s does not tell its version", b.server.Addr)
	}
	fmt.Fprintf(b.out, "%s, %s, %d processors for the server, the clients and the load; median of %d rounds of %v each; "+
		"every limiter on Redis has its own go-redis client with PoolSize %d, ContextTimeoutEnabled and defaults otherwise.\n",
		version, runtime.Version(), runtime.GOMAXPROCS(0), b.rounds, b.lasting, b.pool)
	return nil
}

// progress tells a waiting person where the run is.
func (b *bench) progress(format string, args ...any) {
	if !b.quiet {
		fmt.Fprintf(os.Stderr, "· "+format+"\n", args...)
	}
}

// A workload is what a limiter is asked in one measurement.
type workload struct {
	quota   peers.Quota
	keys    load.Keys
	warm    load.Keys // nil: keys
	prime   int       // keys asked about once before
	callers int
	rounds  int // at most, if not 0
}

func (b *bench) print(t *report.Table) { t.Write(b.out) }
