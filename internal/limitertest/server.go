// Package limitertest holds what the tests of several packages share: a Redis
// in virtual time, and one suite that every limiter has to pass. Nothing that
// users link imports it.
package limitertest

import (
	"context"
	"net"
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
