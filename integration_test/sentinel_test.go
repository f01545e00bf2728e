package integration_test

import (
	"net"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/eventually"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
)

// allKeys are the keys of a siege.
func allKeys() (keys []int) {
	for i := range siegeKeys {
		keys = append(keys, i)
	}
	return keys
}

// The primary is replaced under load: on request, by which it becomes a replica that refuses charges, and because it was
// killed. Redis decides again soon after the sentinels name another one, and what is lost is at most what was
// charged in the last moment.
//
// An old primary learns what it is ten seconds after a failover on request: meanwhile the other kinds have theirs.
func TestSentinelFailoverUnderLoad(t *testing.T) {
	t.Parallel() // see TestSoak
	each := sideBySide(t, servers.StartSentinel)
	for _, row := range []struct {
		name string
		fail func(*testing.T, *servers.Sentinel, string)
	}{
		{"on request", func(t *testing.T, s *servers.Sentinel, _ string) {
			if err := watcher(t, s.Addrs[0]).Failover(t.Context(), servers.MasterName).Err(); err != nil {
				t.Fatal(err)
			}
		}},
		{"killed", func(t *testing.T, s *servers.Sentinel, primary string) { nodeAt(t, s, primary).Kill() }},
	} {
		t.Run(row.name, func(t *testing.T) {
			onEach(t, func(t *testing.T, kind servers.Kind) {
				s := each[kind]
				primary := namedPrimary(t, watcher(t, s.Addrs[0]))
				for _, node := range s.Nodes {
					if node.Addr != primary {
						inStep(t, node)
					}
				}
				run := laySiege(t, place{MasterName: servers.MasterName, Addrs: s.Addrs})
				failed := time.Now()
				row.fail(t, s, primary)
				replaced := anotherPrimary(t, s, primary)
				run.awaitRedis(t, replaced)
				run.lift(t).failover(t, failed, replaced, allKeys())
			})
		})
	}
}

func watcher(t *testing.T, addr string) *redis.SentinelClient {
	t.Helper()
	sentinel := redis.NewSentinelClient(&redis.Options{Addr: addr})
	t.Cleanup(func() { sentinel.Close() })
	return sentinel
}

// namedPrimary is the address that a sentinel names.
func namedPrimary(t *testing.T, sentinel *redis.SentinelClient) string {
	t.Helper()
	named, err := sentinel.GetMasterAddrByName(t.Context(), servers.MasterName).Result()
	if err != nil {
		t.Fatal(err)
	}
	return net.JoinHostPort(named[0], named[1])
}

func nodeAt(t *testing.T, s *servers.Sentinel, addr string) *servers.Server {
	t.Helper()
	i := slices.IndexFunc(s.Nodes, func(node *servers.Server) bool { return node.Addr == addr })
	if i < 0 {
		t.Fatalf("no server at %s", addr)
	}
	return s.Nodes[i]
}

// anotherPrimary waits until all sentinels name another primary, and tells when.
func anotherPrimary(t *testing.T, s *servers.Sentinel, than string) time.Time {
	t.Helper()
	for _, addr := range s.Addrs {
		sentinel := watcher(t, addr)
		eventually.True(t, 20*time.Second, "a sentinel names another primary", func() bool { return namedPrimary(t, sentinel) != than })
	}
	return time.Now()
}
