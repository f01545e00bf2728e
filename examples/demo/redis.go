package main

import (
	"context"
	"fmt"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// A backend is the Redis that the instances share, with a switch.
type backend interface {
	// client is a new connection pool, as each instance has one of its own.
	client() *redis.Client
	cut()
	restore() error
	close()
	String() string
}

func newBackend(options *redis.Options) (backend, error) {
	if options != nil {
		return newRemote(options), nil
	}
	m := miniredis.NewMiniRedis()
	if err := m.Start(); err != nil {
		return nil, fmt.Errorf("embedded Redis: %w", err)
	}
	m.ClockTTL(true) // otherwise keys never expire
	return &embedded{m: m, addr: m.Addr()}, nil
}

// tune sets what makes a client come back soon after an outage. The limiter
// needs none of it to be right: it keeps its own deadline, and has no command
// sent twice whatever MaxRetries says.
func tune(options redis.Options) *redis.Options {
	// A connection that cannot be made within a decision's deadline is of no
	// use; the defaults are five dials of five seconds.
	options.DialTimeout = 100 * time.Millisecond
	options.DialerRetries = 1
	// The stragglers of a stalled server end with their callers and do not
	// occupy the pool for the ReadTimeout of five seconds.
	options.ContextTimeoutEnabled = true
	// After PoolSize failed dials the pool stops dialing for a second at a
	// time. The Fallback already rests, and for a shorter time.
	options.PoolSize = 1000
	// For TIME, which the demo sends itself.
	options.MaxRetries = -1
	return &options
}

// embedded is a miniredis in this process, on a port of its own.
type embedded struct {
	m    *miniredis.Miniredis
	addr string // miniredis has none while it is stopped
}

func (e *embedded) client() *redis.Client {
	return redis.NewClient(tune(redis.Options{Addr: e.addr}))
}

func (e *embedded) String() string { return "embedded, on " + e.addr }

// cut stops the server. It keeps its data, as Redis does with appendonly yes.
func (e *embedded) cut() { e.m.Close() }

// restore starts the server on the port it had. Something else may have it for
// a moment: a dial to a free local port can come to be connected to itself.
func (e *embedded) restore() error {
	var err error
	for range 50 {
		if err = e.m.Restart(); err == nil {
			return nil
		}
		time.Sleep(20 * time.Millisecond)
	}
	return fmt.Errorf("embedded Redis: %w", err)
}

func (e *embedded) close() { e.m.Close() }

// remote is a server that others may use too: it is left alone, and the
// connection to it is cut.
type remote struct {
	options *redis.Options
	cable   *cable
}

func newRemote(options *redis.Options) *remote {
	r := &remote{options: tune(*options)}
	r.cable = newCable(redis.NewDialer(r.options))
	r.options.Dialer = r.cable.dial
	return r
}

func (r *remote) client() *redis.Client {
	options := *r.options // NewClient fills in what it is given
	return redis.NewClient(&options)
}

func (r *remote) String() string { return "server " + r.options.Addr } // never the URL: it may hold a password
func (r *remote) cut()           { r.cable.pull() }
func (r *remote) restore() error { r.cable.plug(); return nil }
func (r *remote) close()         {}

// A clock is that of the Redis server, by which limits are enforced.
type clock struct{ rdb *redis.Client }

// now tries for two seconds, also when ctx is done already: an interrupted
// demo still makes up its sum.
func (c clock) now(ctx context.Context) (time.Time, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	var cause error
	for {
		t, err := c.rdb.Time(ctx).Result()
		if err == nil {
			return t, nil
		}
		if cause == nil || ctx.Err() == nil { // the last try may only say that time is up
			cause = err
		}
		if ctx.Err() != nil {
			return t, cause
		}
		time.Sleep(20 * time.Millisecond)
	}
}
