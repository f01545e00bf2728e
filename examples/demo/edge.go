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

// A node is an instance as the edge sees it.
type node struct {
	name string
	url  *url.URL
	down atomic.Bool // did not answer when it was asked last
}

// parseNode takes the name from the host, as it is in a network of containers.
func parseNode(text string) (*node, error) {
	u, err := url.Parse(text)
	if err != nil {
		return nil, err
	}
	if u.Scheme != "http" || u.Host == "" || u.Path != "" {
		return nil, fmt.Errorf("%q, must be like http://app-1:8080", text)
	}
	return &node{name: u.Hostname(), url: u}, nil
}

// An edge is the load balancer: it passes each request to the next instance.
type edge struct {
	*server
	transport *http.Transport
	wire      *wire
	cockpit   *cockpit
	addr      string
	moved     error // why addr is not the one asked for
}

// newEdge serves the page and the application, to TCP and to the wire. It owns
// the cockpit from then on.
func newEdge(addr string, elsewhere bool, w *wire, c *cockpit) (*edge, error) {
	e := &edge{wire: w, cockpit: c, transport: &http.Transport{MaxIdleConnsPerHost: 64}}
	listener, err := e.listen(addr, elsewhere)
	if err != nil {
		return nil, fmt.Errorf("-addr: %w", err)
	}
	e.addr = listener.Addr().String()
	proxy := &httputil.ReverseProxy{
		Rewrite: roundRobin(c.nodes), Transport: e.transport,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, _ error) { // the page shows which instance is down
			http.Error(w, "the instance does not answer", http.StatusBadGateway)
		},
	}
	e.server = serve(c.routes(proxy), listener, e.wire)
	return e, nil
}

// listen takes another port if the one asked for cannot be had and elsewhere
// is fine, so that the first run does not fail because something else has it.
func (e *edge) listen(addr string, elsewhere bool) (net.Listener, error) {
	listener, err := net.Listen("tcp", addr)
	if err == nil || !elsewhere {
		return listener, err
	}
	host, _, _ := net.SplitHostPort(addr)
	listener, again := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if again != nil {
		return nil, err
	}
	e.moved = err
	return listener, nil
}

// roundRobin chooses the instance, and says who the client is. Instances that
// are down are passed over, if any is not.
//
// X-Forwarded-For is the address that the connection comes from, and nothing
// else: with Rewrite, ReverseProxy has removed what the client sent in it.
// Nobody is in front of this edge who could be believed.
func roundRobin(nodes []*node) func(*httputil.ProxyRequest) {
	var next atomic.Uint64
	return func(r *httputil.ProxyRequest) {
		for range nodes {
			n := nodes[(next.Add(1)-1)%uint64(len(nodes))]
			r.SetURL(n.url)
			if !n.down.Load() {
				break
			}
		}
		r.SetXForwarded()
	}
}

func (e *edge) stop() error {
	e.cockpit.hangUp() // or the server would wait for the browsers
	err := e.server.stop()
	e.cockpit.stop()
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
