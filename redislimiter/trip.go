package redislimiter

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/model"
	"github.com/redislimiter/go-redislimiter/scripts"
)

// Client is what a limiter needs of go-redis: *redis.Client,
// *redis.ClusterClient, *redis.Ring and wrappers around them have it. The
// limiter never dials, configures or closes its client.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// A command is a Redis command that go-redis sends once only. By default
// go-redis sends a command again when the reply is lost, and a charge would
// then be made twice.
//
// It also knows whether it was written. go-redis asks for the arguments when
// it writes them, so that is the moment from which on the server may run the
// command. A command that its caller has left before that moment turns into a
// PING: go-redis may get a connection for it seconds later, and must not
// charge anybody then.
type command struct {
	*redis.IntSliceCmd
	state atomic.Int32
}

// The states of a command.
const (
	idle      int32 = iota // not with go-redis: nothing was sent, or it proved to have had no effect
	given                  // to go-redis, which has not written it yet
	written                // the server may have run it
	abandoned              // it must not be written any more
)

// NoRetry tells go-redis never to send the command again.
func (c *command) NoRetry() bool { return true }

var ping = []any{"ping"}

// Args are the arguments to be written.
func (c *command) Args() []any {
	if c.state.CompareAndSwap(given, written) || c.state.Load() == written {
		return c.IntSliceCmd.Args()
	}
	return ping
}

// abandon reports whether the command was caught before it was written.
func (c *command) abandon() bool {
	return c.state.CompareAndSwap(idle, abandoned) || c.state.CompareAndSwap(given, abandoned)
}

// A trip carries one call to Redis and back in a goroutine of its own, so that
// the caller can leave at its deadline: go-redis looks at neither the deadline
// nor the cancellation of a context while it waits for a reply.
//
// It is also the context that go-redis gets: the values of the caller, the
// deadline of the trip, and done when the caller has left.
//
// Trips are used again, since they hold what would otherwise be allocated for
// each call; those that their callers have left are not.
type trip struct {
	rdb      Client
	script   *scripts.Script
	caller   context.Context
	deadline time.Time

	args []any // of the command, pointing into what follows
	keys [1 + model.MaxRules]string
	cost int64
	more int64

	command  command
	err      error
	timer    *time.Timer   // rings at the deadline
	finished chan struct{} // receives once run has ended
	left     chan struct{} // closed when the caller has left
	start    func()        // runs the trip; kept, since making it allocates
	tokens   chan struct{} // of the limiter; start takes one out at the end
}

func newTrip() any {
	t := &trip{finished: make(chan struct{}, 1), left: make(chan struct{}), timer: time.NewTimer(time.Hour)}
	t.timer.Stop()
	t.start = func() {
		tokens := t.tokens
		t.run()
		t.finished <- struct{}{} // the caller may put t back from here on
		<-tokens
	}
	return t
}

// errTimeout is the cause when the limiter's own timeout has passed.
var errTimeout = errors.New("no answer in time")

func (t *trip) Deadline() (time.Time, bool) { return t.deadline, true }
func (t *trip) Done() <-chan struct{}       { return t.left }
func (t *trip) Value(key any) any           { return t.caller.Value(key) }

func (t *trip) Err() error {
	select {
	case <-t.left:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// Boxed once, since a string becomes an allocation in an any.
var evalsha, eval any = "evalsha", "eval"

func noScript(err error) bool {
	return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT")
}

// run sends the command until there is an answer, or nothing can come of it.
func (t *trip) run() {
	t.err = t.send(evalsha, &t.script.SHA)
	if noScript(t.err) {
		// EVAL loads the script and runs it, in one step and on the very
		// node that lacks it: a restarted server, a promoted replica, the
		// target of a slot that is being moved.
		t.err = t.send(eval, &t.script.Text)
	}
}

// send sends the command, and again only while the server proves that it ran
// nothing.
func (t *trip) send(name any, script *string) error {
	t.args[0], t.args[1] = name, script
	pause := time.Millisecond
	for {
		t.command.IntSliceCmd = redis.NewIntSliceCmd(t, t.args...)
		t.command.SetFirstKeyPos(3)
		t.command.state.CompareAndSwap(idle, given)
		if t.Err() != nil {
			return errTimeout
		}
		err := t.rdb.Process(t, &t.command)
		if err == nil || !nothingRan(err) && !noScript(err) {
			return err
		}
		t.command.state.CompareAndSwap(written, idle)
		t.command.state.CompareAndSwap(given, idle)
		if noScript(err) || !t.sleep(pause) {
			return err
		}
		pause = min(2*pause, 32*time.Millisecond)
	}
}

// sleep waits about d, and reports false if the trip would be too late then.
// The spread keeps many callers from coming back all at once.
func (t *trip) sleep(d time.Duration) bool {
	d = d/2 + rand.N(d)
	if time.Until(t.deadline) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.left:
		return false
	}
}

// leave ends the caller's wait, and reports whether the command may have
// reached the server.
func (t *trip) leave() bool {
	close(t.left)
	return !t.command.abandon()
}

// clear makes the trip ready for another call.
func (t *trip) clear() {
	t.timer.Stop()
	t.caller, t.err, t.command.IntSliceCmd = nil, nil, nil
	t.command.state.Store(idle)
}
