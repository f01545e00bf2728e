package main

import (
	"context"
	"net"
	"sync"
	"syscall"

	"github.com/redis/go-redis/v9"
)

type dialer func(ctx context.Context, network, addr string) (net.Conn, error)

// A cable makes the connections of one client and can be pulled: those that
// exist break, and new ones are refused, as if the server were gone.
type cable struct {
	through dialer

	mu     sync.Mutex
	pulled bool
	conns  map[*plugged]struct{}
}

func newCable() *cable { return &cable{conns: map[*plugged]struct{}{}} }

// over is the dialer for options. It goes through the cable, if there is one.
func (c *cable) over(options *redis.Options) dialer {
	dial := redis.NewDialer(options)
	if c == nil {
		return dial
	}
	c.through = dial
	return c.dial
}

func (c *cable) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	if c.isPulled() {
		return nil, refused(network)
	}
	conn, err := c.through(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	p := &plugged{Conn: conn, cable: c}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pulled { // meanwhile
		_ = conn.Close()
		return nil, refused(network)
	}
	c.conns[p] = struct{}{}
	if socket, ok := conn.(syscall.Conn); ok {
		return pluggedSocket{p, socket}, nil
	}
	return p, nil
}

func (c *cable) isPulled() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.pulled
}

// refused is the error of a dial to a server that does not run. The limiter
// sees by Op that nothing was sent.
func refused(network string) error {
	return &net.OpError{Op: "dial", Net: network, Err: syscall.ECONNREFUSED}
}

func (c *cable) pull() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulled = true
	for p := range c.conns {
		_ = p.Conn.Close()
	}
	clear(c.conns)
}

// set plugs the cable in or pulls it.
func (c *cable) set(connected bool) {
	if connected {
		c.plug()
		return
	}
	c.pull()
}

func (c *cable) plug() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.pulled = false
}

// plugged is a connection that its cable knows until it is closed.
type plugged struct {
	net.Conn
	cable *cable
}

func (p *plugged) Close() error {
	p.cable.mu.Lock()
	_, open := p.cable.conns[p]
	delete(p.cable.conns, p)
	p.cable.mu.Unlock()
	if !open {
		return nil // it was pulled
	}
	return p.Conn.Close()
}

// pluggedSocket lets go-redis look at the socket before it takes a connection
// from the pool, as it does where no cable is in between. It would otherwise
// not notice which connections broke, and fail a request with each of them.
type pluggedSocket struct {
	*plugged
	socket syscall.Conn
}

func (p pluggedSocket) SyscallConn() (syscall.RawConn, error) { return p.socket.SyscallConn() }
