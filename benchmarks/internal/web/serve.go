// Package web measures net/http servers with and without a limiter.
package web

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/go-chi/httprate"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/peers"
	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// The profiles of a server.
const (
	Bare     = "bare handler"
	Memory   = "middleware, Memory"
	Redis    = "middleware, Redis"
	HTTPRate = "httprate, in memory"
)

// Profiles are all of them.
var Profiles = []string{Bare, Memory, Redis, HTTPRate}

// keyHeader tells clients apart.
const keyHeader = "X-Api-Key"

// The variables that make this program a server to be measured. It is a
// process of its own so that its garbage and its goroutines are not those of
// the load generator.
const (
	profileVariable = "REDISLIMITER_BENCHMARKS_PROFILE"
	redisVariable   = "REDISLIMITER_BENCHMARKS_REDIS"
)

// ServeIfChild serves a profile until its standard input ends, and reports
// true, if this process was started to do so. Call it first in main.
func ServeIfChild() bool {
	profile := os.Getenv(profileVariable)
	if profile == "" {
		return false
	}
	if err := serve(profile, os.Getenv(redisVariable)); err != nil {
		fmt.Fprintln(os.Stderr, "server:", err)
		os.Exit(1)
	}
	return true
}

func serve(profile, redisAddr string) error {
	handler, err := handlerFor(profile, redisAddr)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	s := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the parent, however that ends
		os.Exit(0)
	}()
	fmt.Println(listener.Addr())
	return s.Serve(listener)
}

func handlerFor(profile, redisAddr string) (http.Handler, error) {
	bare := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, "ok\n")
	})
	limit, key := peers.Limit(peers.Bucket, peers.Plenty), middleware.ByHeader(keyHeader)
	switch profile {
	case Bare:
		return bare, nil
	case Memory:
		m, err := redislimiter.NewMemory("bench", limit)
		if err != nil {
			return nil, err
		}
		return middleware.New(m, key, nil)(bare), nil
	case Redis:
		l, err := peers.NewLimiter(peers.Client(redisAddr, peers.PoolSize), limit)
		if err != nil {
			return nil, err
		}
		return middleware.New(l, key, nil)(bare), nil
	case HTTPRate:
		byHeader := func(r *http.Request) (string, error) { return r.Header.Get(keyHeader), nil }
		return httprate.LimitBy(peers.Plenty.Burst, time.Minute, byHeader)(bare), nil
	}
	return nil, fmt.Errorf("no profile %q", profile)
}
