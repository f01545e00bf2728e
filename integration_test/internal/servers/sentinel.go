package servers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

// MasterName is what the sentinels call the server that they watch.
const MasterName = "limits"

const (
	sentinelServers = 3 // a primary and two replicas
	sentinelCount   = 3
)

// Sentinel is a primary with two replicas, each in a container of its own, and three sentinels that watch them.
type Sentinel struct {
	Nodes []*Server // the first begins as the primary
	Addrs []string  // of the sentinels
}

// StartSentinel runs fresh servers until the end of the test, and returns when all sentinels know all of them. A
// primary that is gone is replaced after one to two seconds.
func StartSentinel(tb testing.TB, kind Kind, args ...string) *Sentinel {
	tb.Helper()
	RequireDocker(tb)
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	// The last container has the sentinels.
	nodes, err := startNodes(sentinelServers+1, func(i int) (*Server, error) {
		if i == sentinelServers {
			return startNode(ctx, kind, sentinelPrograms(kind, firstPort))
		}
		s, err := startNode(ctx, kind, []string{plainServer(kind, 6379, args...)})
		s.Addr = addrOf(s.ip, 6379)
		return s, err
	})
	own(tb, nodes)
	s := &Sentinel{Nodes: nodes[:sentinelServers], Addrs: manyAddrs(nodes[sentinelServers], sentinelCount)}
	if err == nil {
		err = formSentinel(ctx, addrsOf(s.Nodes), s.Addrs, 500*time.Millisecond)
	}
	if err != nil {
		tb.Fatalf("start sentinels of %s: %v", kind, err)
	}
	return s
}

// SharedSentinel returns the addresses of sentinels that all tests of this binary use; they watch MasterName. As with
// Shared, nobody may stop, flush or configure what they watch.
func SharedSentinel(tb testing.TB, kind Kind) []string {
	tb.Helper()
	s := sharedAs(tb, "sentinel", kind, func(ctx context.Context, kind Kind) (*Server, error) {
		programs := sentinelPrograms(kind, firstPort+sentinelServers)
		for i := range sentinelServers {
			programs = append(programs, plainServer(kind, firstPort+i))
		}
		s, err := startNode(ctx, kind, programs)
		if err != nil {
			return s, err
		}
		all := manyAddrs(s, sentinelServers+sentinelCount)
		return s, formSentinel(ctx, all[:sentinelServers], all[sentinelServers:], 30*time.Second)
	})
	return manyAddrs(s, sentinelServers+sentinelCount)[sentinelServers:]
}

// sentinelPrograms are the command lines of the sentinels. They keep what they know in a file, which has to exist.
func sentinelPrograms(kind Kind, port int) []string {
	var programs []string
	for i := range sentinelCount {
		file := fmt.Sprintf("/tmp/sentinel-%d.conf", i)
		programs = append(programs, fmt.Sprintf("{ touch %s; %s %s --sentinel --port %d --protected-mode no; }",
			file, kind.program(), file, port+i))
	}
	return programs
}

// formSentinel makes the first server the primary of the others, and has it watched. A primary that has been silent for
// so long is replaced.
func formSentinel(ctx context.Context, servers, sentinels []string, silent time.Duration) error {
	nodes, done := clientsOf(servers)
	defer done()
	host, port, _ := strings.Cut(servers[0], ":")
	if err := onEachNode(nodes, func(i int, node *redis.Client) error {
		if err := awaitReady(ctx, servers[i]); err != nil || i == 0 {
			return err
		}
		if err := node.ReplicaOf(ctx, host, port).Err(); err != nil {
			return err
		}
		return retry(ctx, func() error { return replicates(ctx, node) })
	}); err != nil {
		return err
	}
	watchers, done := clientsOf(sentinels)
	defer done()
	return onEachNode(watchers, func(i int, node *redis.Client) error { return watch(ctx, sentinels[i], host, port, silent) })
}

// watch tells a sentinel what to watch, and returns when it knows all others.
func watch(ctx context.Context, addr, host, port string, silent time.Duration) error {
	if err := awaitReady(ctx, addr); err != nil {
		return err
	}
	s := redis.NewSentinelClient(&redis.Options{Addr: addr})
	defer s.Close()
	if err := s.Monitor(ctx, MasterName, host, port, "2").Err(); err != nil {
		return err
	}
	for option, value := range map[string]string{
		"down-after-milliseconds": fmt.Sprint(silent.Milliseconds()),
		"failover-timeout":        "3000",
		"parallel-syncs":          "2",
	} {
		if err := s.Set(ctx, MasterName, option, value).Err(); err != nil {
			return fmt.Errorf("%s: %w", option, err)
		}
	}
	return retry(ctx, func() error {
		m, err := s.Master(ctx, MasterName).Result()
		if err == nil && (m["num-slaves"] != "2" || m["num-other-sentinels"] != "2") {
			err = errors.New("it does not know all others yet")
		}
		return err
	})
}
