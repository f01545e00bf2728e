package main

import (
	"context"
	"net"
	"net/netip"
	"sync"
)

// A wire brings the demo's clients to the edge. It is a listener beside the
// TCP one, in memory, so that clients can come from different addresses
// without a machine that has them: not every system has more loopback
// addresses than 127.0.0.1. The edge reads the address of a client off its
// connection, as it does for TCP; nobody tells it in a header.
type wire struct {
	arriving chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newWire() *wire {
	return &wire{arriving: make(chan net.Conn), closed: make(chan struct{})}
}

// dialFrom connects a client that has the address.
func (w *wire) dialFrom(ctx context.Context, address netip.Addr) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case w.arriving <- distant{far, net.TCPAddrFromAddrPort(netip.AddrPortFrom(address, 40000))}:
		return near, nil
	case <-w.closed:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept is the edge's side.
func (w *wire) Accept() (net.Conn, error) {
	select {
	case conn := <-w.arriving:
		return conn, nil
	case <-w.closed:
		return nil, net.ErrClosed
	}
}

// Close ends Accept and refuses new clients.
func (w *wire) Close() error {
	w.once.Do(func() { close(w.closed) })
	return nil
}

// Addr is only asked for to be logged.
func (w *wire) Addr() net.Addr { return &net.UnixAddr{Name: "wire", Net: "memory"} }

// distant is a connection that comes from another address.
type distant struct {
	net.Conn
	from net.Addr
}

func (d distant) RemoteAddr() net.Addr { return d.from }
