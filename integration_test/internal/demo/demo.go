// Package demo builds and runs examples/demo as its users do.
package demo

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"
)

// patience is how long building and stopping may take on a slow machine.
const patience = time.Minute

// Root is the main module's directory.
func Root(tb testing.TB) string {
	tb.Helper()
	out, err := exec.Command("go", "env", "GOMOD").Output()
	if err != nil {
		tb.Fatalf("go env: %v", err)
	}
	return filepath.Dir(filepath.Dir(strings.TrimSpace(string(out))))
}

// Build makes the program, without C and for Linux if asked for, so that it runs in a container that has nothing else.
func Build(tb testing.TB, path string, environment ...string) {
	tb.Helper()
	build := exec.CommandContext(tb.Context(), "go", "build", "-o", path, "./examples/demo")
	build.Dir = Root(tb)
	build.Env = append(os.Environ(), environment...)
	if out, err := build.CombinedOutput(); err != nil {
		tb.Fatalf("go build: %v\n%s", err, out)
	}
}

// A Demo is a process that runs.
type Demo struct {
	URL string // of the page

	tb     testing.TB
	cmd    *exec.Cmd
	output *output
}

type output struct {
	mu    sync.Mutex
	text  bytes.Buffer
	wrote chan struct{}
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	select {
	case o.wrote <- struct{}{}:
	default:
	}
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

var pageLine = regexp.MustCompile(`(?m)^page\s+(http://\S+)$`)

// Start runs the demo on a free port until Stop.
func Start(tb testing.TB, args ...string) *Demo {
	tb.Helper()
	binary := filepath.Join(tb.TempDir(), "demo")
	Build(tb, binary)
	d := &Demo{tb: tb, output: &output{wrote: make(chan struct{}, 1)}}
	d.cmd = exec.Command(binary, append([]string{"-addr", "127.0.0.1:0"}, args...)...)
	d.cmd.Stdout, d.cmd.Stderr = d.output, d.output
	if err := d.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if d.cmd.ProcessState == nil { // a test failed before Stop
			_ = d.cmd.Process.Kill()
			_ = d.cmd.Wait()
		}
	})
	deadline := time.After(patience)
	for {
		if m := pageLine.FindStringSubmatch(d.output.String()); m != nil {
			d.URL = m[1]
			return d
		}
		select {
		case <-d.output.wrote:
		case <-deadline:
			tb.Fatalf("the demo does not say where its page is:\n%s", d.output)
		}
	}
}

// Stop interrupts the demo as Ctrl-C does, and returns what it printed. It has to end with 0.
func (d *Demo) Stop() string {
	d.tb.Helper()
	if err := d.cmd.Process.Signal(syscall.SIGINT); err != nil {
		d.tb.Fatal(err)
	}
	kill := time.AfterFunc(patience, func() { _ = d.cmd.Process.Kill() })
	defer kill.Stop()
	if err := d.cmd.Wait(); err != nil {
		d.tb.Fatalf("the demo ends with %v:\n%s", err, d.output)
	}
	return d.output.String()
}
