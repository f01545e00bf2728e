package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
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
	name string
	addr string
	rdb  *redis.Client
}

func newInstance(ctx context.Context, number int, cfg config, b backend, t *tally) (*instance, error) {
	i := &instance{name: fmt.Sprintf("app-%d", number+1), rdb: b.client()}
	limiter, err := i.limiter(ctx, cfg, t)
	if err != nil {
		return nil, errors.Join(err, i.rdb.Close())
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, errors.Join(err, i.rdb.Close())
	}
	i.addr = listener.Addr().String()
	handler, err := i.routes(observed(limiter, number, t))
	if err != nil {
		return nil, errors.Join(err, listener.Close(), i.rdb.Close())
	}
	i.server = serve(handler, listener)
	return i, nil
}

// limiter is what an application sets up once, at its start.
func (i *instance) limiter(ctx context.Context, cfg config, t *tally) (redislimiter.Allower, error) {
	limiter, err := redislimiter.New(i.rdb, limiterName, cfg.limit)
	if err != nil {
		return nil, err
	}
	limiter.Timeout = cfg.timeout
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if err := limiter.Check(ctx); err != nil {
		return nil, err
	}
	secondary, err := cfg.policy.secondary()
	if err != nil {
		return nil, err
	}
	return &redislimiter.Fallback{Primary: limiter, Secondary: secondary, OnError: t.redisFailed}, nil
}

// routes is the application.
func (i *instance) routes(limiter redislimiter.Allower) (http.Handler, error) {
	// Only the edge is believed about who the client is. It comes from
	// loopback, and the instances listen nowhere else.
	trusted, err := middleware.ParseProxies("127.0.0.1/32")
	if err != nil {
		return nil, err
	}
	r := chi.NewRouter()
	r.Use(i.sign)
	r.Get("/healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	r.Group(func(r chi.Router) {
		r.Use(middleware.New(limiter, middleware.ByIP(trusted), nil))
		r.Get("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "hello from %s\n", i.name) })
	})
	return r, nil
}

// sign tells in each answer, refusals included, which instance gave it.
func (i *instance) sign(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Instance", i.name)
		next.ServeHTTP(w, r)
	})
}

// observed counts the decisions of an instance.
func observed(l redislimiter.Allower, instance int, t *tally) redislimiter.Allower {
	return redislimiter.AllowerFunc(func(ctx context.Context, key string, n int) (redislimiter.Result, error) {
		result, err := l.AllowN(ctx, key, n)
		if err == nil {
			t.decided(decision{instance, key, result.Source, result.Allowed})
		}
		return result, err
	})
}

func (i *instance) stop() error {
	return errors.Join(i.server.stop(), i.rdb.Close())
}
