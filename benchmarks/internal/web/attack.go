package web

import (
	"bufio"
	"context"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"time"

	vegeta "github.com/tsenart/vegeta/v12/lib"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/load"
)

// A Child is a server in a process of its own.
type Child struct {
	URL  string
	cmd  *exec.Cmd
	stop func() error
}

// Start runs this program again, as the server of a profile.
func Start(ctx context.Context, profile, redisAddr string) (*Child, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, self)
	cmd.Env = append(os.Environ(), profileVariable+"="+profile, redisVariable+"="+redisAddr)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	addr, err := bufio.NewReader(stdout).ReadString('\n')
	if err != nil {
		stdin.Close()
		return nil, fmt.Errorf("server for %s did not start: %w", profile, err)
	}
	return &Child{URL: "http://" + strings.TrimSpace(addr), cmd: cmd, stop: stdin.Close}, nil
}

// Stop ends the server.
func (c *Child) Stop() {
	_ = c.stop()
	_ = c.cmd.Wait()
}

// An Outcome is what a load brought.
type Outcome struct {
	PerSecond float64 // answered 200
	P99       time.Duration
	OK        float64 // share of answers that were 200
}

const (
	workers = 64
	clients = 10_000
)

// Saturate has a fixed number of workers that each ask again as soon as they
// are answered: that finds how many requests a second there can be, but says
// little about latency, since slow answers make it ask less.
func (c *Child) Saturate(lasting time.Duration) Outcome {
	return c.attack(vegeta.Rate{Freq: 0, Per: time.Second}, lasting)
}

// Offer asks at a rate of its own: latencies are those that clients see who do
// not wait for each other.
func (c *Child) Offer(perSecond float64, lasting time.Duration) Outcome {
	return c.attack(vegeta.Rate{Freq: max(int(perSecond), 1), Per: time.Second}, lasting)
}

func (c *Child) attack(pace vegeta.Pacer, lasting time.Duration) Outcome {
	attacker := vegeta.NewAttacker(vegeta.Workers(workers), vegeta.MaxWorkers(workers), vegeta.Connections(workers), vegeta.MaxBody(0))
	var m vegeta.Metrics
	for r := range attacker.Attack(c.targets(), pace, lasting, "") {
		m.Add(r)
	}
	m.Close()
	return Outcome{PerSecond: m.Throughput, P99: m.Latencies.P99, OK: m.Success}
}

// targets are requests of many clients in turn, made once.
func (c *Child) targets() vegeta.Targeter {
	all := make([]vegeta.Target, clients)
	for i := range all {
		all[i] = vegeta.Target{Method: http.MethodGet, URL: c.URL, Header: http.Header{keyHeader: {load.Key(i)}}}
	}
	return vegeta.NewStaticTargeter(all...)
}
