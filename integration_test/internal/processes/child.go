package processes

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"time"
)

// child is one worker process, seen from the test.
type child struct {
	name  string // for messages
	cmd   *exec.Cmd
	stdin io.WriteCloser
	ready chan struct{} // closed when it has called begin
	done  chan struct{} // closed when it has ended and the fields below are set

	output []byte
	err    error
}

// startChild starts the test binary as a worker. It is killed when the context ends.
func startChild(ctx context.Context, name, worker string, o order) (*child, error) {
	c := &child{name: name, ready: make(chan struct{}), done: make(chan struct{})}
	self, err := os.Executable() // os.Args[0] may be relative to a directory that the test has left
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	c.cmd = exec.CommandContext(ctx, self)
	c.cmd.Env = append(os.Environ(), variable+"="+worker,
		"GORACE=atexit_sleep_ms=0 "+os.Getenv("GORACE")) // or the race detector has it sleep for a second at its end
	c.cmd.WaitDelay = 5 * time.Second // grandchildren may hold the pipes
	stderr := &tail{}
	c.cmd.Stderr = stderr
	if c.stdin, err = c.cmd.StdinPipe(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	// A child that dies at once makes this fail; follow then has the reason.
	_ = json.NewEncoder(c.stdin).Encode(o)
	go c.follow(ctx, stdout, stderr)
	return c, nil
}

// next tells the child to go on: to begin, and later to stop.
func (c *child) next() {
	_, _ = c.stdin.Write([]byte("\n")) // as above
}

func (c *child) kill() {
	_ = c.cmd.Process.Kill() // it may have ended already
}

// follow reads what the child reports until it ends.
func (c *child) follow(ctx context.Context, stdout io.Reader, stderr *tail) {
	defer close(c.done)
	in := json.NewDecoder(stdout)
	var last report
	var reading error
	for ready := false; ; {
		var r report
		if reading = in.Decode(&r); reading != nil {
			break
		}
		if last = r; r.Ready && !ready {
			ready = true
			close(c.ready)
		}
	}
	exit := c.cmd.Wait()
	c.output = last.Output
	switch {
	case last.Output != nil && exit == nil:
		// done
	case last.Error != "":
		c.err = fmt.Errorf("%s: %s", c.name, last.Error)
	case ctx.Err() != nil:
		c.err = fmt.Errorf("%s: %w%s", c.name, ctx.Err(), stderr)
	case exit != nil:
		c.err = fmt.Errorf("%s died: %w%s", c.name, exit, stderr)
	default:
		c.err = fmt.Errorf("%s ended without a result: %w%s", c.name, reading, stderr)
	}
}

// tail keeps the end of what is written to it. The last words of a process are what explains its death.
type tail struct {
	buf bytes.Buffer
}

const tailSize = 8 << 10

// Write is called by one goroutine, which has ended when the command was waited for.
func (t *tail) Write(p []byte) (int, error) {
	t.buf.Write(p)
	if excess := t.buf.Len() - tailSize; excess > 0 {
		t.buf.Next(excess)
	}
	return len(p), nil
}

// String returns the text as an appendix to an error message.
func (t *tail) String() string {
	if t.buf.Len() == 0 {
		return ""
	}
	return "\nits standard error ends with:\n" + t.buf.String()
}
