package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/redis/go-redis/v9"
	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// limiterName is what makes the instances share: same name, same Redis.
const limiterName = "demo"

// An instance is one process of the application, as it would be deployed: it
// has a Redis client, a limiter and a failure policy of its own, and shares
// nothing with the others but what is in Redis.
type instance struct {
	*server
	name    string
	addr    string
	boot    string
	rdb     redis.UniversalClient
	cable   *cable
	timeout time.Duration
	limiter *guard
	meter   *meter
	onError func(error)

	mu  sync.Mutex
	now settings
}

// instanceConfig is what an instance is started with.
type instanceConfig struct {
	name     string
	addr     string
	trusted  []string // networks of the edge, which says who the client is
	timeout  time.Duration
	settings settings
	// observe sees each decision of the application's limiter, and onError
	// each failure of Redis to give one. They may be nil.
	observe func(redislimiter.Allower) redislimiter.Allower
	onError func(error)
}

func newInstance(cfg instanceConfig, b *backend) (*instance, error) {
	i := &instance{
		name: cfg.name, boot: rand.Text(), cable: newCable(), timeout: cfg.timeout,
		limiter: &guard{}, meter: newMeter(), onError: cfg.onError,
	}
	i.rdb = b.client(i.cable)
	if err := i.start(cfg); err != nil {
		return nil, errors.Join(err, i.rdb.Close())
	}
	return i, nil
}

func (i *instance) start(cfg instanceConfig) error {
	if err := i.apply(cfg.settings); err != nil {
		return err
	}
	handler, err := i.routes(cfg)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", cfg.addr)
	if err != nil {
		return fmt.Errorf("-addr: %w", err)
	}
	i.addr = listener.Addr().String()
	i.server = serve(handler, listener)
	return nil
}

// apply makes the settings those of this instance. When it returns, nothing is
// decided by the former ones any more.
func (i *instance) apply(s settings) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	_, limiter, err := i.assembly(limiterName).limiter(s)
	if err != nil {
		return err
	}
	i.cable.set(s.Connected)
	before := i.now
	before.Connected = s.Connected
	if before != s { // a limiter that stays keeps its local counts
		i.limiter.change(limiter)
	}
	i.now = s
	return nil
}

func (i *instance) assembly(name string) assembly {
	return assembly{rdb: i.rdb, name: name, timeout: i.timeout, onError: i.redisFailed}
}

func (i *instance) redisFailed(err error) {
	i.meter.redisFailed(err)
	if i.onError != nil {
		i.onError(err)
	}
}

// check is the start-up self-check of the limiter. On a busy machine a dial can
// take longer than a decision may: it is tried again for some seconds.
func (i *instance) check(ctx context.Context) error {
	limiter, _, err := i.assembly(limiterName).limiter(i.settings())
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	again := time.NewTicker(200 * time.Millisecond)
	defer again.Stop()
	for {
		err := limiter.Check(ctx)
		if err == nil || errors.Is(err, redislimiter.ErrMisconfigured) {
			return err
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return err
		}
	}
}

func (i *instance) settings() settings {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.now
}

// routes is the application, what the page compares beside it, and the way by
// which the edge looks in and changes settings.
func (i *instance) routes(cfg instanceConfig) (http.Handler, error) {
	// Only the edge is believed about who the client is.
	trusted, err := middleware.ParseProxies(cfg.trusted...)
	if err != nil {
		return nil, err
	}
	client := middleware.ByIP(trusted)
	limiter := i.meter.watch(i.limiter)
	if cfg.observe != nil {
		limiter = cfg.observe(limiter)
	}
	r := chi.NewRouter()
	r.Use(i.sign)
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	r.With(middleware.New(limiter, client, nil)).Get("/hello", i.hello)
	for _, l := range append(algorithmLanes, policyLanes...) {
		limiter, err := l.limiter(i.assembly(limiterName+".lane."+l.name), cfg.settings.Instances)
		if err != nil {
			return nil, err
		}
		r.With(middleware.New(limiter, client, nil)).Get("/lanes/"+l.name, i.hello)
	}
	r.With(http.NewCrossOriginProtection().Handler).Route("/-", func(r chi.Router) {
		r.Get("/stats", i.getStats)
		r.Put("/settings", i.putSettings)
	})
	return r, nil
}

func (i *instance) hello(w http.ResponseWriter, _ *http.Request) {
	fmt.Fprintf(w, "hello from %s\n", i.name)
}

// sign tells in each answer, refusals included, which instance gave it.
func (i *instance) sign(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Instance", i.name)
		next.ServeHTTP(w, r)
	})
}

func (i *instance) getStats(w http.ResponseWriter, _ *http.Request) {
	s := i.meter.snapshot()
	s.Boot, s.Settings = i.boot, i.settings()
	writeJSON(w, http.StatusOK, s)
}

func (i *instance) putSettings(w http.ResponseWriter, r *http.Request) {
	var s settings
	err := readJSON(w, r, &s)
	if err == nil {
		err = i.apply(s)
	}
	if err != nil {
		writeError(w, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (i *instance) stop() error {
	return errors.Join(i.server.stop(), i.rdb.Close())
}
