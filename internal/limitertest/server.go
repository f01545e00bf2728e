// Package limitertest holds what the tests of several packages share: a Redis
// in virtual time, and one suite that every limiter has to pass. Nothing that
// users link imports it.
package limitertest

import (
	"bytes"
	"context"
	"net"
	"sync"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

// Redis starts an embedded Redis and a client for it. Inside a synctest bubble
// both run on the bubble's clock: TIME, expiry and timeouts follow time.Sleep.
// Its connections are pipes, since a socket's reads would keep the bubble's
// clock from moving.
func Redis(tb testing.TB) (*miniredis.Miniredis, *redis.Client) {
	tb.Helper()
	server := miniredis.NewMiniRedis()
	server.ClockTTL(true)
	client := redis.NewClient(&redis.Options{
		// An IP: a name would be looked up by a goroutine outside the bubble.
		Addr: "127.0.0.1:6379",
		// Nobody may wait for a connection: go-redis waits by timers that
		// it shares between all clients, and so between bubbles.
		PoolSize: 4096,
		// There are thousands of clients in a run: the defaults of 32 KiB a
		// connection are most of what the tests would allocate.
		ReadBufferSize: 2048, WriteBufferSize: 2048,
		Dialer: func(context.Context, string, string) (net.Conn, error) {
			return server.Dial()
		},
	})
	tb.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return server, client
}

// Dial connects to a server, as Redis does, for clients that send pipelines: a
// pipe has no buffer, so that client and server would wait for each other to
// read.
func Dial(server *miniredis.Miniredis) (net.Conn, error) {
	conn, err := server.Dial()
	if err != nil {
		return nil, err
	}
	b := &buffered{Conn: conn, written: make(chan []byte, 1024), closed: make(chan struct{})}
	go b.deliver()
	return b, nil
}

type buffered struct {
	net.Conn
	written chan []byte
	closed  chan struct{}
	once    sync.Once
}

func (b *buffered) deliver() {
	for {
		select {
		case data := <-b.written:
			if _, err := b.Conn.Write(data); err != nil {
				return // the reader hears of it
			}
		case <-b.closed:
			return
		}
	}
}

func (b *buffered) Write(data []byte) (int, error) {
	select {
	case b.written <- bytes.Clone(data):
		return len(data), nil
	case <-b.closed:
		return 0, net.ErrClosed
	}
}

func (b *buffered) Close() error {
	b.once.Do(func() { close(b.closed) })
	return b.Conn.Close()
}
