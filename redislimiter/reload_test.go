package redislimiter_test

import (
	"context"
	"net"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A clusterClient counts how often it is asked for the slots.
type clusterClient struct {
	*flaky
	reloads atomic.Int64
}

func (c *clusterClient) ReloadState(context.Context) { c.reloads.Add(1) }

// A cluster's slots are asked for again when its nodes are silent, but not by every call of an outage, and not when
// they answer.
func TestSilentNodesMakeAClusterTellItsSlots(t *testing.T) {
	for name, fault := range map[string]func(t *testing.T) func(context.Context, int64, redis.Cmder) error{
		"refused": func(*testing.T) func(context.Context, int64, redis.Cmder) error {
			return func(context.Context, int64, redis.Cmder) error {
				return &net.OpError{Op: "dial", Err: net.UnknownNetworkError("refused")}
			}
		},
		"silent": func(t *testing.T) func(context.Context, int64, redis.Cmder) error {
			hang, release := stall(t)
			t.Cleanup(release)
			return hang
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f, sound := flakyLimiter(t)
				c := &clusterClient{flaky: f}
				l, err := rl.New(c, sound.Name(), sound.Limits()...)
				if err != nil {
					t.Fatal(err)
				}
				for range 5 {
					allow(t, l, "k", 1, true)
				}
				if n := c.reloads.Load(); n != 0 {
					t.Fatalf("%d reloads while all is well", n)
				}
				f.before = fault(t)
				begun := time.Now()
				for time.Since(begun) < 2*time.Second {
					if _, err := l.Allow(t.Context(), "k"); err == nil {
						t.Fatal("decided without a server")
					}
				}
				if n := c.reloads.Load(); n < 2 || n > 9 {
					t.Fatalf("%d reloads in two seconds", n)
				}
				c.reloads.Store(0)
				l.Timeout = time.Second // one call alone: it tries again and again, or waits
				if _, err := l.Allow(t.Context(), "k"); err == nil || c.reloads.Load() == 0 {
					t.Fatalf("%d reloads in a second, %v", c.reloads.Load(), err)
				}
			})
		})
	}
}
