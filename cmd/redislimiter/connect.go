package main

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redislimiter/go-redislimiter/internal/keys"
	"github.com/redislimiter/go-redislimiter/internal/limitspec"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// server is the flags that say which Redis to talk to.
type server struct {
	Redis   []string `placeholder:"URL" env:"REDIS_URL" sep:"none" default:"redis://localhost:6379" help:"The server: redis://, rediss:// (TLS) or unix://, with user, password and database, as go-redis reads them; ?master_name=NAME asks Sentinels. Several addresses, as several --redis or ?addr=HOST:PORT, are those of a Cluster or of the Sentinels; user, password and options are the first one's (${default})."`
	Cluster bool     `help:"The one address is that of a Cluster."`
}

// valid reads the URL, so that a wrong one is wrong usage.
func (s *server) valid() error {
	_, err := s.target()
	return err
}

// A target is a server that can be connected to.
type target struct {
	name string // for messages: addresses, and never a password
	open func(timeout time.Duration) redis.UniversalClient
}

// errURL says no more, since any part of a URL that was read wrongly may be
// part of the password.
var errURL = errors.New("--redis or $REDIS_URL: not a URL that go-redis understands (in a password, characters such as / ? # % have to be written as %2F %3F %23 %25)")

func (s *server) target() (*target, error) {
	first, err := url.Parse(s.Redis[0])
	if err != nil || first.Fragment != "" {
		return nil, errURL
	}
	query := first.Query()
	for _, other := range s.Redis[1:] {
		u, err := url.Parse(other)
		if err != nil || u.Host == "" || u.Scheme != first.Scheme {
			return nil, errURL
		}
		addr := u.Host
		if u.Port() == "" {
			addr += ":6379"
		}
		query.Add("addr", addr)
	}
	first.RawQuery = query.Encode()
	switch {
	case query.Has("master_name"):
		return sentinels(first.String())
	case query.Has("addr"), s.Cluster:
		return nodes(first.String())
	}
	return single(first.String())
}

// The client's own waits are bounded by the command's timeout, and nothing is
// sent twice: what failed is reported.

func single(text string) (*target, error) {
	o, err := redis.ParseURL(text)
	if err != nil {
		return nil, errURL
	}
	return &target{o.Addr, func(timeout time.Duration) redis.UniversalClient {
		o.ContextTimeoutEnabled, o.MaxRetries, o.DialerRetries, o.DialTimeout = true, -1, 1, timeout
		return redis.NewClient(o)
	}}, nil
}

func nodes(text string) (*target, error) {
	o, err := redis.ParseClusterURL(text)
	if err != nil {
		return nil, errURL
	}
	return &target{"Cluster at " + strings.Join(o.Addrs, ", "), func(timeout time.Duration) redis.UniversalClient {
		o.ContextTimeoutEnabled, o.DialerRetries, o.DialTimeout = true, 1, timeout
		return redis.NewClusterClient(o)
	}}, nil
}

func sentinels(text string) (*target, error) {
	o, err := redis.ParseFailoverURL(text)
	if err != nil || o.MasterName == "" {
		return nil, errURL
	}
	return &target{o.MasterName + " of the Sentinels at " + strings.Join(o.SentinelAddrs, ", "), func(timeout time.Duration) redis.UniversalClient {
		o.ContextTimeoutEnabled, o.MaxRetries, o.DialerRetries, o.DialTimeout = true, -1, 1, timeout
		return redis.NewFailoverClient(o)
	}}, nil
}

// open connects; the caller closes.
func (s *server) open(timeout time.Duration) (redis.UniversalClient, *target, error) {
	t, err := s.target()
	if err != nil {
		return nil, nil, err
	}
	return t.open(timeout), t, nil
}

// explain names the server an error came from, and says what to do where that
// is known.
func (t *target) explain(err error) error {
	if err == nil {
		return nil
	}
	if redis.HasErrorPrefix(err, "MOVED") || strings.Contains(err.Error(), "MOVED ") {
		return fmt.Errorf("redis %s: it is part of a Cluster, add --cluster: %w", t.name, err)
	}
	return fmt.Errorf("redis %s: %w", t.name, err)
}

// nodeOf is the primary that has a key.
func nodeOf(ctx context.Context, client redis.UniversalClient, key string) (redis.UniversalClient, error) {
	if c, ok := client.(*redis.ClusterClient); ok {
		return c.MasterForKey(ctx, key)
	}
	return client, nil
}

// eachNode calls f for every primary.
func eachNode(ctx context.Context, client redis.UniversalClient, f func(ctx context.Context, node *redis.Client) error) error {
	switch c := client.(type) {
	case *redis.ClusterClient:
		return c.ForEachMaster(ctx, f)
	case *redis.Client:
		return f(ctx, c)
	}
	return fmt.Errorf("%T has no nodes", client)
}

// limiter is whose key it is.
type limiter struct {
	Name string `arg:"" help:"Name of the limiter, as New was given it."`
	Key  string `arg:"" help:"The key, as the limiter was asked for it. Behind -- it may begin with a dash."`
}

// valid checks the name; any key is possible.
func (l *limiter) valid() error { return checkName(l.Name) }

func checkName(name string) error {
	if name == "" { // kong asks before it misses the argument
		return errors.New("<name> is missing or empty")
	}
	if err := keys.CheckName(name); err != nil {
		return errors.New(strings.TrimPrefix(err.Error(), "redislimiter: "))
	}
	return nil
}

// limits are the flags for the limits of one limiter.
type limits struct {
	Limit []limitspec.Spec `placeholder:"LIMIT" sep:"none" help:"A limit of the limiter, in the order that New was given them; see above."`
}

const limitHelp = `

A LIMIT is one of

    fixed_window:RATE/PER               such as  fixed_window:1000/1d
    sliding_window_log:RATE/PER                  sliding_window_log:5/1m
    sliding_window_counter:RATE/PER              sliding_window_counter:10000/1h
    token_bucket:RATE/PER:burst=N                token_bucket:100/1m:burst=20
    gcra:RATE/PER:burst=N                        gcra:100/1m:burst=20
    leaky_bucket:RATE/PER:queue=N                leaky_bucket:10/1s:queue=5
    block_after:REFUSALS/WITHIN:block=TIME       block_after:10/1m:block=15m

Periods are written as 500ms, 1m30s, 12h or 30d, and 100/m is 100/1m.`

// valid has the library check the limits together.
func (l *limits) valid() error {
	if len(l.Limit) == 0 {
		return nil
	}
	if _, err := redislimiter.NewMemory("limit", l.values()...); err != nil {
		return fmt.Errorf("--limit: %s", strings.TrimPrefix(err.Error(), "redislimiter: limit: "))
	}
	return nil
}

func (l *limits) values() []redislimiter.Limit {
	var values []redislimiter.Limit
	for _, spec := range l.Limit {
		values = append(values, spec.Limit)
	}
	return values
}
