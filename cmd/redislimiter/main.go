// Command redislimiter looks at rate limits from outside: what is stored for a
// key, who is refused most, whether a server can be used, which scripts run.
//
//	go install github.com/redislimiter/go-redislimiter/cmd/redislimiter@latest
//	redislimiter inspect api user:42 --limit token_bucket:100/1m:burst=20
//
// It exits with 0 if all went well, 1 if something failed, 2 if it was called
// wrongly. Results go to standard output, everything else to standard error; there
// is no colour. Passwords are never printed.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"regexp"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/redis/go-redis/v9"
)

// The exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

func main() {
	redis.SetLogger(quiet{})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// quiet keeps go-redis from logging failures that are reported as errors.
type quiet struct{}

func (quiet) Printf(context.Context, string, ...any) {}

// commands is the command line.
type commands struct {
	Inspect inspectCommand `cmd:"" help:"Show what is stored for a key, in words."`
	Reset   resetCommand   `cmd:"" help:"Forget everything about a key."`
	Top     topCommand     `cmd:"" help:"Show which keys are refused most."`
	Check   checkCommand   `cmd:"" help:"Try whether a server can be used."`
	Scripts scriptsCommand `cmd:"" help:"Print the scripts that run inside Redis, or load them."`

	JSON    bool             `name:"json" help:"Print results as JSON. Errors are text, on standard error."`
	Timeout time.Duration    `default:"5s" help:"How long everything may take."`
	Version kong.VersionFlag `help:"Print the version."`
}

// Validate names a flag that cannot be used.
func (c *commands) Validate() error {
	if c.Timeout <= 0 {
		return fmt.Errorf("--timeout: %v, must be above 0", c.Timeout)
	}
	return nil
}

// A report is what a command has found: JSON as it is, or text.
type report interface {
	text(w io.Writer)
}

// A command does its work and returns what to print, also beside an error.
type command interface {
	run(ctx context.Context, timeout time.Duration) (report, error)
}

const description = `Looks at rate limits that instances of a Go service share in Redis.

Exit codes: 0 all went well, 1 something failed, 2 wrong usage.`

// run is the program without what belongs to the process, so that tests can
// run it.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	var c commands
	exited := false
	parser, err := kong.New(&c, kong.Name("redislimiter"), kong.Description(description), kong.Writers(stdout, stderr),
		kong.Vars{"version": version()}, kong.Exit(func(int) { exited = true }), kong.ConfigureHelp(kong.HelpOptions{Compact: true, WrapUpperBound: 100}))
	if err != nil {
		return fail(stderr, exitFailed, err)
	}
	parsed, err := parser.Parse(args)
	switch {
	case exited: // help or version were printed
		return exitOK
	case err != nil:
		code := fail(stderr, exitUsage, err)
		fmt.Fprintln(stderr, `"redislimiter --help" tells more`)
		return code
	}
	asked, ok := parsed.Selected().Target.Addr().Interface().(command)
	if !ok {
		return fail(stderr, exitFailed, fmt.Errorf("%s is no command", parsed.Command()))
	}
	found, err := within(ctx, c.Timeout, asked)
	if found != nil {
		if printed := show(stdout, found, c.JSON); err == nil {
			err = printed
		}
	}
	if err != nil {
		return fail(stderr, exitFailed, err)
	}
	return exitOK
}

// within runs a command until it is done, or interrupted, or its time is over,
// whatever go-redis waits for.
func within(ctx context.Context, timeout time.Duration, c command) (report, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, timeout, fmt.Errorf("not done within %v", timeout))
	defer cancel()
	type outcome struct {
		found report
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		found, err := c.run(ctx, timeout)
		done <- outcome{found, err}
	}()
	select {
	case o := <-done:
		return o.found, why(ctx, o.err)
	case <-ctx.Done():
	}
	select {
	case o := <-done: // it may know more
		return o.found, why(ctx, o.err)
	case <-time.After(100 * time.Millisecond):
		return nil, why(ctx, ctx.Err())
	}
}

// why says in place of a bare context error what ended the context.
func why(ctx context.Context, err error) error {
	switch {
	case err == nil || ctx.Err() == nil:
		return err
	case errors.Is(context.Cause(ctx), context.Canceled):
		return errors.New("interrupted")
	case errors.Is(err, context.DeadlineExceeded):
		return context.Cause(ctx)
	}
	return fmt.Errorf("%w: %w", context.Cause(ctx), err)
}

func show(w io.Writer, found report, asJSON bool) error {
	if !asJSON {
		out := &writer{to: w}
		found.text(out)
		return out.err
	}
	encoder := json.NewEncoder(w)
	encoder.SetIndent("", "  ")
	encoder.SetEscapeHTML(false)
	return encoder.Encode(found)
}

// writer remembers that something could not be written.
type writer struct {
	to  io.Writer
	err error
}

func (w *writer) Write(p []byte) (int, error) {
	if w.err == nil {
		_, w.err = w.to.Write(p)
	}
	return len(p), w.err
}

func fail(stderr io.Writer, code int, err error) int {
	fmt.Fprintf(stderr, "redislimiter: %s\n", withoutPasswords(err.Error()))
	return code
}

var userinfo = regexp.MustCompile(`://\S*@`)

// withoutPasswords is for what others have put into an error: a URL that was
// given as an argument, say.
func withoutPasswords(text string) string {
	return userinfo.ReplaceAllString(text, "://…@")
}

// version is that of the module, as the go command has recorded it.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "redislimiter (unknown version)"
	}
	return fmt.Sprintf("redislimiter %s (%s)", info.Main.Version, info.GoVersion)
}
