package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/peers"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/web"
)

func TestMain(m *testing.M) {
	if web.ServeIfChild() { // the test binary started itself as an HTTP server
		return
	}
	os.Exit(m.Run())
}

// requireDocker fails the test where no Redis can be run: go test would not show a skip.
func requireDocker(t *testing.T) {
	t.Helper()
	if err := exec.Command("docker", "info").Run(); err != nil {
		t.Fatalf("Docker is needed to run a Redis: %v", err)
	}
}

// A tiny run of everything: each section writes its table and each limiter its
// row, no limiter that should decide fails, and the document and pictures are written.
// The figures themselves mean nothing here.
func TestEverySection(t *testing.T) {
	requireDocker(t)
	dir := t.TempDir()
	document := filepath.Join(dir, "performance.md")
	if err := os.WriteFile(document, []byte("before\n<!-- measured -->\nstale figures\n<!-- /measured -->\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := taste()
	s.quiet = true
	s.update, s.pictures = document, dir
	var out bytes.Buffer
	if err := run(t.Context(), s, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{
		"### " + hotKey, "### " + tenK, "### " + million, "### " + mostlyNot, "### " + refusedKey, "### In memory",
		"### Server time", "### Bytes", "### Growth: a log", "### Growth: keys", "### Growth: primaries", "### p99", "### HTTP", "### Targets",
		peers.RedisRate, peers.Ulule, peers.Throttled, peers.RateInMap, peers.GoLimiter, peers.UluleMemory, web.HTTPRate,
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the output lacks %q", want)
		}
	}
	text, _ := os.ReadFile(document)
	if got := string(text); !strings.HasPrefix(got, "before\n") || !strings.HasSuffix(got, "after\n") || strings.Contains(got, "stale figures") || !strings.Contains(got, "### Targets") {
		t.Errorf("the document was not updated between its marks:\n%.300s", got)
	}
	pictures, _ := filepath.Glob(filepath.Join(dir, "*.svg"))
	if len(pictures) != 3 {
		t.Errorf("pictures: %v", pictures)
	}
	if t.Failed() {
		t.Log(out.String())
	}
}

// What is compared must do the same: admit plenty, and one of a kind once.
func TestLimitersDecideAlike(t *testing.T) {
	requireDocker(t)
	b, err := newBench(t.Context(), taste(), &bytes.Buffer{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.close()
	for _, p := range peers.All() {
		if p.Name == peers.Nothing {
			continue
		}
		decide, err := p.Open(b.client(p.Name), peers.Single)
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		for i, want := range []bool{true, false, false} {
			if got, err := decide(t.Context(), "single"); err != nil || got != want {
				t.Errorf("%s: call %d of a limit of one: %v, %v", p.Name, i+1, got, err)
			}
		}
		if decide, err = p.Open(b.client(p.Name), peers.Plenty); err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		for range 200 {
			if got, err := decide(t.Context(), "plenty"); err != nil || !got {
				t.Fatalf("%s: refused where there is plenty: %v, %v", p.Name, got, err)
			}
		}
	}
}
