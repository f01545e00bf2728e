package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// A backend is the Redis that the instances share: a server, a Cluster, or one
// embedded in this process.
type backend struct {
	single   *redis.Options        // of a server, the embedded one too
	cluster  *redis.ClusterOptions // instead
	embedded *miniredis.Miniredis
}

// parseBackend reads a URL as go-redis has it; with addr parameters it names
// the nodes of a Cluster. The empty URL is an embedded server.
func parseBackend(text string) (*backend, error) {
	b := &backend{}
	var err error
	switch {
	case text == "":
		return b, nil
	case strings.Contains(text, "addr="):
		b.cluster, err = redis.ParseClusterURL(text)
	default:
		b.single, err = redis.ParseURL(text)
	}
	// An url.Error quotes the whole URL, with the password in it.
	if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
		err = wrapped.Err
	}
	return b, err
}

// start starts the embedded server, if that is what it is.
func (b *backend) start() error {
	if b.single != nil || b.cluster != nil {
		return nil
	}
	b.embedded = miniredis.NewMiniRedis()
	if err := b.embedded.Start(); err != nil {
		return fmt.Errorf("embedded Redis: %w", err)
	}
	b.embedded.ClockTTL(true) // otherwise keys never expire
	b.single = &redis.Options{Addr: b.embedded.Addr()}
	return nil
}

// client makes a connection pool, as each process has one of its own. A cable
// that is given is in between.
//
// The options make a client come back soon after an outage. The limiter needs
// none of them to be right: it keeps its own deadline, and has no command sent
// twice whatever MaxRetries says.
func (b *backend) client(c *cable) redis.UniversalClient {
	if b.cluster != nil {
		options := *b.cluster // NewClusterClient fills in what it is given
		options.DialTimeout, options.DialerRetries = dialTimeout, 1
		options.ContextTimeoutEnabled = true
		options.PoolSize = poolSize
		options.Dialer = c.over(&redis.Options{DialTimeout: dialTimeout, TLSConfig: options.TLSConfig})
		return redis.NewClusterClient(&options)
	}
	options := *b.single
	options.DialTimeout, options.DialerRetries = dialTimeout, 1
	// The stragglers of a stalled server end with their callers and do not
	// occupy the pool for the ReadTimeout of five seconds.
	options.ContextTimeoutEnabled = true
	options.PoolSize = poolSize
	options.MaxRetries = -1 // for TIME, which the demo sends itself
	options.Dialer = c.over(&options)
	return redis.NewClient(&options)
}

const (
	// A connection that cannot be made within a decision's deadline is of no
	// use; the defaults are five dials of five seconds.
	dialTimeout = 100 * time.Millisecond
	// After PoolSize failed dials the pool stops dialing for a second at a
	// time. The Fallback already rests, and for a shorter time.
	poolSize = 1000
)

// String never is the URL: it may hold a password.
func (b *backend) String() string {
	switch {
	case b.embedded != nil:
		return "embedded, on " + b.single.Addr
	case b.cluster != nil:
		return "cluster " + strings.Join(b.cluster.Addrs, " ")
	case b.single != nil:
		return "server " + b.single.Addr
	}
	return "embedded"
}

func (b *backend) close() {
	if b.embedded != nil {
		b.embedded.Close()
	}
}

// A clock is that of the Redis server, by which limits are enforced. The nodes
// of a Cluster have to agree about the time.
type clock struct{ rdb redis.UniversalClient }

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
