package integration_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/ports"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// wantReport fails the test unless Check names all of this, and whether it is a matter of configuration.
func wantReport(t *testing.T, l *rl.Limiter, misconfigured bool, names ...string) {
	t.Helper()
	err := l.Check(t.Context())
	if !errors.Is(err, rl.ErrUnavailable) || errors.Is(err, rl.ErrMisconfigured) != misconfigured {
		t.Errorf("Check: %v; want an ErrUnavailable, of configuration: %v", err, misconfigured)
		return
	}
	for _, name := range names {
		if !strings.Contains(err.Error(), name) {
			t.Errorf("Check does not name %q: %v", name, err)
		}
	}
}

// Every command of the documented ACL line is needed, and Check names it when it is missing.
func TestCheckNamesEachMissingPermission(t *testing.T) {
	onEach(t, func(t *testing.T, kind servers.Kind) {
		admin := dial(t, servers.Start(t, kind).Addr)
		user := documentedUser(t, admin.Options().Addr, false)
		rdb := dialWith(t, &redis.Options{Addr: admin.Options().Addr, Username: user, Password: aclPassword})
		mixed := newLimiter(t, rdb, everyAlgorithm(t, 10)...)
		gcra := newLimiter(t, rdb, rl.GCRA(10, time.Second, 10))
		for _, l := range []*rl.Limiter{mixed, gcra} {
			if err := l.Check(t.Context()); err != nil {
				t.Fatalf("with what is documented: %v", err)
			}
		}
		for _, command := range documentedCommands(t) {
			if command == "ping" {
				continue // go-redis's, for a Ring: see TestRingNeedsPing
			}
			l := mixed
			if slices.Contains([]string{"get", "set"}, command) {
				l = gcra // which has a string of its own when it is alone
			}
			t.Run(command, func(t *testing.T) {
				setUser(t, admin, user, "-"+command)
				defer setUser(t, admin, user, "+"+command)
				wantReport(t, l, true, strings.ToUpper(command), "+"+command, admin.Options().Addr)
			})
		}
		t.Run("several", func(t *testing.T) {
			setUser(t, admin, user, "-hset", "-zadd", "-eval")
			defer setUser(t, admin, user, "+hset", "+zadd", "+eval")
			wantReport(t, mixed, true, "HSET", "ZADD", "EVAL,")
		})
		t.Run("keys", func(t *testing.T) {
			setUser(t, admin, user, "resetkeys", "~other:*")
			wantReport(t, mixed, true, "rl:"+mixed.Name()+":*")
		})
	})
}

func documentedCommands(t *testing.T) (commands []string) {
	t.Helper()
	for _, word := range documentedACL(t)[0] {
		if command, ok := strings.CutPrefix(word, "+"); ok {
			commands = append(commands, command)
		}
	}
	return commands
}

func setUser(t *testing.T, admin *redis.Client, user string, rules ...string) {
	t.Helper()
	if err := admin.ACLSetUser(t.Context(), user, rules...).Err(); err != nil {
		t.Fatal(err)
	}
}

// A Ring asks its shards by PING whether they live, and a user who may not would make it give them up.
func TestRingNeedsPing(t *testing.T) {
	addrs := map[string]string{"one": servers.Start(t, servers.Redis80).Addr}
	user := documentedUser(t, addrs["one"], false)
	setUser(t, dial(t, addrs["one"]), user, "-ping")
	// Before the Ring has noticed: after three PINGs it has no shard left that could be asked.
	ring := redis.NewRing(&redis.RingOptions{Addrs: addrs, Username: user, Password: aclPassword, HeartbeatFrequency: time.Hour})
	defer ring.Close()
	wantReport(t, newLimiter(t, ring, rl.FixedWindow(10, time.Second)), true, "PING", addrs["one"])
}

func TestCheckNamesANodeThatCannotBeReached(t *testing.T) {
	port, err := ports.Listen()
	if err != nil {
		t.Fatal(err)
	}
	gone := port.Addr().String()
	port.Close()
	limit := rl.FixedWindow(10, time.Second)
	t.Run("refused", func(t *testing.T) {
		wantReport(t, newLimiter(t, dial(t, gone), limit), false, gone)
	})
	t.Run("a Ring's shard", func(t *testing.T) {
		ring := redis.NewRing(&redis.RingOptions{Addrs: map[string]string{
			"here": servers.Shared(t, servers.Redis80), "gone": gone,
		}})
		defer ring.Close()
		wantReport(t, newLimiter(t, ring, limit), false, gone)
	})
	t.Run("silent", func(t *testing.T) {
		s := servers.Start(t, servers.Redis80)
		l := newLimiter(t, dial(t, s.Addr), limit)
		s.Pause()
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		if err := l.Check(ctx); !errors.Is(err, rl.ErrUnavailable) || !strings.Contains(err.Error(), s.Addr) {
			t.Errorf("Check: %v, want an ErrUnavailable that names %s", err, s.Addr)
		}
	})
}

// A client of a replica would be refused every charge.
func TestCheckNamesAReplica(t *testing.T) {
	onEach(t, func(t *testing.T, kind servers.Kind) {
		sentinel := redis.NewSentinelClient(&redis.Options{Addr: servers.SharedSentinel(t, kind)[0]})
		defer sentinel.Close()
		replicas, err := sentinel.Replicas(t.Context(), servers.MasterName).Result()
		if err != nil || len(replicas) == 0 {
			t.Fatalf("replicas: %v, %v", replicas, err)
		}
		addr := replicas[0]["ip"] + ":" + replicas[0]["port"]
		wantReport(t, newLimiter(t, dial(t, addr), rl.FixedWindow(10, time.Second)), true, addr, "read-only replica")
	})
}
