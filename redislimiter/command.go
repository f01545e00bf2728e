package redislimiter

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Client is what a limiter needs of go-redis: *redis.Client,
// *redis.ClusterClient, *redis.Ring and wrappers around them have it. The
// limiter never dials, configures or closes its client.
//
// A wrapper around a client of several nodes has to embed it, so that its
// MasterForKey or GetShardClientForKey tells that there are several.
type Client interface {
	Process(ctx context.Context, cmd redis.Cmder) error
}

// A command is a Redis command that go-redis sends once only. By default
// go-redis sends a command again when the reply is lost, and a charge would
// then be made twice.
//
// It also knows whether it was written. go-redis asks for the arguments when
// it writes them, so that is the moment from which on the server may run the
// command. A command that its callers have left before that moment turns into
// TIME: go-redis may get a connection for it seconds later, and must not
// charge anybody then. The reply has to be integers, or go-redis would close the
// connection.
type command struct {
	*redis.IntSliceCmd
	trip *trip
}

// The states of a trip's commands.
const (
	idle      int32 = iota // not with go-redis: nothing was sent, or it proved to have had no effect
	given                  // to go-redis, which has not written it yet
	written                // the server may have run it
	abandoned              // it must not be written any more
)

// NoRetry tells go-redis never to send the command again.
func (c *command) NoRetry() bool { return true }

var harmless = []any{"time"}

// Args are the arguments to be written.
func (c *command) Args() []any {
	if c.trip.state.CompareAndSwap(given, written) {
		c.trip.server.door.unwritten.Add(-1)
		c.trip.server.door.awaited.Add(1)
	} else if c.trip.state.Load() != written {
		return harmless
	}
	return c.IntSliceCmd.Args()
}

// abandon reports whether the trip's commands were caught before they were
// written.
func (t *trip) abandon() bool {
	return t.state.CompareAndSwap(idle, abandoned) || t.state.CompareAndSwap(given, abandoned)
}

// Boxed once, since a string becomes an allocation in an any.
var evalsha, eval any = "evalsha", "eval"

func noScript(err error) bool {
	return err != nil && redis.HasErrorPrefix(err, "NOSCRIPT")
}
