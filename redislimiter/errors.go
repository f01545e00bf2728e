package redislimiter

import (
	"errors"
	"fmt"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// The errors that callers can tell apart with errors.Is. A caller that gives
// up gets the ctx.Err() of its own context instead.
var (
	// ErrNeverAllowed: n is above what the limit can ever admit, so that
	// waiting is of no use. Nothing was sent or charged.
	ErrNeverAllowed = errors.New("more than the limit can ever admit")

	// ErrUnavailable: there is no decision, because Redis could not be
	// reached, did not answer in time, or refused to run the script.
	// Nothing was charged, unless the error is also ErrUncertain.
	ErrUnavailable = errors.New("no decision")

	// ErrUncertain: the request was sent, but its reply was lost or late, so
	// that it may have been charged, once. It is also an ErrUnavailable.
	ErrUncertain = errors.New("the charge may have been made")

	// ErrMisconfigured: Redis answered, and no waiting will change the
	// answer: a wrong password, a command that the ACL does not allow, a key
	// of another type, memory that is full. It is also an ErrUnavailable.
	ErrMisconfigured = errors.New("redis has to be configured")
)

// nameError is how every error of a limiter begins. Keys are left out: they may
// be addresses, e-mails or secrets.
func nameError(name string, err error) error {
	return fmt.Errorf("redislimiter: %s: %w", name, err)
}

// An argumentError is a mistake of the caller: no other limiter could help.
type argumentError struct{ text string }

func (e *argumentError) Error() string { return e.text }

// checkN refuses what no trip is needed for.
func checkN(name string, n int, capacity int64) error {
	switch {
	case n < 0:
		return &argumentError{fmt.Sprintf("redislimiter: %s: n is %d, must not be negative", name, n)}
	case int64(n) > capacity:
		return fmt.Errorf("redislimiter: %s: n is %d, the limit admits at most %d at once: %w", name, n, capacity, ErrNeverAllowed)
	}
	return nil
}

// callerMistake tells errors that another limiter must not be asked about.
func callerMistake(err error) bool {
	var argument *argumentError
	return errors.Is(err, ErrNeverAllowed) || errors.As(err, &argument)
}

// An unavailable is an ErrUnavailable with what is known of its kind.
type unavailable struct {
	name          string
	cause         error
	uncertain     bool
	misconfigured bool
}

func (e *unavailable) Error() string {
	text := "redislimiter: " + e.name + ": no decision"
	if e.uncertain {
		text += ", the charge may have been made"
	}
	return text + ": " + plain(e.cause)
}

func (e *unavailable) Is(target error) bool {
	switch target {
	case ErrUnavailable:
		return true
	case ErrUncertain:
		return e.uncertain
	case ErrMisconfigured:
		return e.misconfigured
	}
	return false
}

func (e *unavailable) Unwrap() error { return e.cause }

// replied reports whether the error is the server's own answer, rather than
// that of a connection.
func replied(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && !errors.Is(err, redis.Nil)
}

// hasCode looks for a server's error code. Older servers wrap the code of an
// error that a script ran into, so it may stand inside the text.
func hasCode(err error, code string) bool {
	text := err.Error()
	return strings.HasPrefix(text, code+" ") || strings.Contains(text, "-"+code+" ") || strings.Contains(text, ": "+code+" ")
}

// transient lists the codes by which a server says that it ran nothing and
// that it may soon do so, and what they mean to a caller.
var transient = []struct{ code, meaning string }{
	{"LOADING", "the server is still loading its data"},
	{"READONLY", "the server is a read-only replica"},
	{"MASTERDOWN", "the server is a replica that has lost its primary"},
	{"CLUSTERDOWN", "the cluster has no primary for the key"},
	{"TRYAGAIN", "the key is being moved to another node"},
	{"NOREPLICAS", "the primary has too few replicas in step"},
	{"BUSY", "the server is busy with a script"},
	{"MOVED", "the key lives on another node"},
	{"ASK", "the key is being moved to another node"},
}

// plain is an error's text in words for people. What servers tell each other's
// clients by these codes is no caller's business; errors.As still finds it.
func plain(err error) string {
	var node *nodeError
	if errors.As(err, &node) {
		return node.Error()
	}
	if replied(err) {
		if noScript(err) {
			return "the server forgets its scripts"
		}
		for _, t := range transient {
			if hasCode(err, t.code) {
				return t.meaning
			}
		}
	}
	return err.Error()
}

// A nodeError names the node that an error is about.
type nodeError struct {
	addr  string
	cause error
}

func (e *nodeError) Error() string { return e.addr + ": " + plain(e.cause) }
func (e *nodeError) Unwrap() error { return e.cause }

// nothingRan reports whether the error proves that the script did not run, and
// that asking once more makes sense.
func nothingRan(err error) bool {
	if replied(err) {
		for _, t := range transient {
			if hasCode(err, t.code) {
				return true
			}
		}
		return strings.Contains(err.Error(), "max number of clients reached")
	}
	var dial *net.OpError
	return errors.As(err, &dial) && dial.Op == "dial" || errors.Is(err, redis.ErrPoolTimeout)
}

// classify turns the last error of a trip into what the caller gets. written
// tells whether the command may have reached the server.
func classify(name string, err error, written bool) *unavailable {
	e := &unavailable{name: name, cause: err}
	switch {
	case replied(err):
		e.misconfigured = !nothingRan(err) && !noScript(err)
		e.uncertain = stopped(err)
	case nothingRan(err), errors.Is(err, redis.ErrClosed):
	default:
		e.uncertain = written
	}
	return e
}
