package main

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// clientHeader tells clients apart.
const clientHeader = "X-Client"

// A service is the application under test: a net/http server with the
// middleware, and a Redis that can be cut off.
type service struct {
	url    string
	rdb    *redis.Client
	cable  *cable
	record *record
	server *http.Server
	close  func()
}

// newServer connects to Redis, or embeds one.
func newServer(options *redis.Options) *service {
	s := &service{record: &record{}, close: func() {}}
	if options == nil {
		embedded := miniredis.NewMiniRedis()
		if err := embedded.Start(); err != nil {
			panic(err) // no port of this machine is free
		}
		embedded.ClockTTL(true) // otherwise keys never expire
		options = &redis.Options{Addr: embedded.Addr()}
		s.close = embedded.Close
	}
	o := *options
	o.DialTimeout, o.DialerRetries, o.ContextTimeoutEnabled = time.Second, 1, true
	// After PoolSize failed dials go-redis's pool stops dialing for a second at
	// a time, which would be seen as a late recovery.
	o.PoolSize = 1000
	s.cable = &cable{through: redis.NewDialer(&o)}
	o.Dialer = s.cable.dial
	s.rdb = redis.NewClient(&o)
	s.rdb.AddHook(s.record)
	return s
}

// serve begins to answer, with what the allower lets through.
func (s *service) serve(allower redislimiter.Allower) error {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	limit := middleware.New(s.record.around(allower), middleware.ByHeader(clientHeader), nil)
	s.server = &http.Server{ReadHeaderTimeout: time.Minute, Handler: limit(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	}))}
	s.url = "http://" + listener.Addr().String()
	go func() { _ = s.server.Serve(listener) }()
	return nil
}

// warm makes connections and loads the script by looks, which charge nothing, so
// that the first requests do not wait for that while a bucket stays full.
func (s *service) warm(ctx context.Context, l *redislimiter.Limiter) error {
	errs := make(chan error, 32)
	var wg sync.WaitGroup
	for range cap(errs) {
		wg.Go(func() {
			_, err := l.AllowN(ctx, "warm", 0)
			errs <- err
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	s.record.mu.Lock()
	defer s.record.mu.Unlock()
	s.record.charges = nil
	return nil
}

func (s *service) stop() {
	if s.server != nil {
		_ = s.server.Close()
	}
	_ = s.rdb.Close()
	s.close()
}

// A record is what was decided, as seen beside the limiter and on the wire.
type record struct {
	mu        sync.Mutex
	decisions []decision
	charges   []charge
}

// A decision is one that the limiter, or its fallback, has made.
type decision struct {
	began   time.Time // when it was asked for
	at      time.Time // when it was there
	key     string
	source  redislimiter.Source
	allowed bool
	failed  bool // there was none
}

// A charge is what a script was asked and has replied: the exact instant by
// Redis's clock, and how many requests it granted then. Only what is asked for one key is
// recorded right, which is all that the scenarios with one client need.
type charge struct {
	now     int64 // microseconds
	asked   int64 // requests of one unit
	granted int64
}

func (r *record) around(l redislimiter.Allower) redislimiter.Allower {
	return redislimiter.AllowerFunc(func(ctx context.Context, key string, n int) (redislimiter.Result, error) {
		began := time.Now()
		result, err := l.AllowN(ctx, key, n)
		d := decision{began, time.Now(), key, result.Source, result.Allowed, err != nil}
		r.mu.Lock()
		r.decisions = append(r.decisions, d)
		r.mu.Unlock()
		return result, err
	})
}

// since returns the decisions from number n on.
func (r *record) since(n int) []decision {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.decisions[n:len(r.decisions):len(r.decisions)]
}

// DialHook implements redis.Hook.
func (r *record) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessPipelineHook implements redis.Hook.
func (r *record) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}

// ProcessHook reads the replies of the scripts: how many were granted first,
// the time last (see scripts/driver.lua).
func (r *record) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		err := next(ctx, cmd)
		if reply, ok := cmd.(interface{ Val() []int64 }); ok && err == nil && len(reply.Val()) > 2 {
			values := reply.Val()
			args := cmd.Args() // not before: the limiter takes asking for them as sending
			r.mu.Lock()
			r.charges = append(r.charges, charge{values[len(values)-1], number(args[len(args)-1]), values[0]})
			r.mu.Unlock()
		}
		return err
	}
}

// number is an argument as the limiter passes it.
func number(arg any) int64 {
	switch n := arg.(type) {
	case *int64:
		return *n
	case int64:
		return n
	}
	return -1 // which no judge takes for right
}

// A cable makes connections and can be cut: those that exist break, and new
// ones are refused, as if the server were gone.
type cable struct {
	through func(ctx context.Context, network, addr string) (net.Conn, error)

	mu    sync.Mutex
	isCut bool
	conns []net.Conn
}

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	conn, err := c.through(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isCut {
		_ = conn.Close()
		return nil, &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
	}
	c.conns = append(c.conns, conn)
	return conn, nil
}

func (c *cable) cut() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = true
	for _, conn := range c.conns {
		_ = conn.Close()
	}
	c.conns = nil
}

func (c *cable) restore() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.isCut = false
}

// forget deletes the keys of clients from a server that others use too.
func (s *service) forget(ctx context.Context, l *redislimiter.Limiter, clients int) error {
	keys := make(chan string)
	go func() {
		defer close(keys)
		for i := range clients {
			keys <- clientKey(i)
		}
	}()
	var wg sync.WaitGroup
	errs := make(chan error, clients)
	for range 32 {
		wg.Go(func() {
			for key := range keys {
				if err := l.Reset(ctx, key); err != nil {
					errs <- err
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	if err := <-errs; err != nil {
		return fmt.Errorf("keys were left: %w", err)
	}
	return nil
}
