package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"time"
)

// A server is an http.Server with its listeners.
type server struct {
	http *http.Server
	done sync.WaitGroup
}

func serve(handler http.Handler, listeners ...net.Listener) *server {
	s := &server{http: &http.Server{Handler: handler, ReadHeaderTimeout: 5 * time.Second}}
	for _, l := range listeners {
		s.done.Go(func() { _ = s.http.Serve(l) }) // until it is stopped
	}
	return s
}

// stop lets the requests in flight finish.
func (s *server) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.done.Wait()
	return err
}

// An edge is the load balancer: it passes each request to the next instance.
type edge struct {
	*server
	transport *http.Transport
	wire      *wire
	addr      string
	moved     error // why addr is not the one asked for
}

func newEdge(addr string, instances []*instance) (*edge, error) {
	e := &edge{wire: newWire(), transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	listener, err := e.listen(addr)
	if err != nil {
		return nil, fmt.Errorf("-addr: %w", err)
	}
	e.addr = listener.Addr().String()
	e.server = serve(&httputil.ReverseProxy{Rewrite: roundRobin(instances), Transport: e.transport}, listener, e.wire)
	return e, nil
}

// listen takes another port if the one asked for cannot be had, so that the
// first run does not fail because something else has it.
func (e *edge) listen(addr string) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if err == nil {
		return listener, nil
	}
	host, _, _ := net.SplitHostPort(addr)
	listener, again := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if again != nil {
		return nil, err
	}
	e.moved = err
	return listener, nil
}

// roundRobin chooses the instance, and says who the client is.
//
// X-Forwarded-For is the address that the connection comes from, and nothing
// else: with Rewrite, ReverseProxy has removed what the client sent in it.
// Nobody is in front of this edge who could be believed.
func roundRobin(instances []*instance) func(*httputil.ProxyRequest) {
	var next atomic.Uint64
	return func(r *httputil.ProxyRequest) {
		i := (next.Add(1) - 1) % uint64(len(instances))
		r.SetURL(&url.URL{Scheme: "http", Host: instances[i].addr})
		r.SetXForwarded()
	}
}

func (e *edge) stop() error {
	err := e.server.stop()
	e.transport.CloseIdleConnections()
	return err
}

// url is how to reach the edge by hand.
func (e *edge) url() string {
	host, port, _ := net.SplitHostPort(e.addr)
	if ip := net.ParseIP(host); ip == nil || ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "http://" + net.JoinHostPort(host, port) + "/"
}
