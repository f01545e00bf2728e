package servers

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
)

const (
	primaries = 3
	slots     = 16384
	firstPort = 7000 // of the programs that share a container
)

// Cluster is a Redis Cluster of three primaries, each with a replica, every node in a container of its own.
type Cluster struct {
	// Nodes are the three that begin as primaries, and then their replicas in the same order.
	Nodes []*Server
}

// Addrs are the addresses of all nodes.
func (c *Cluster) Addrs() []string { return addrsOf(c.Nodes) }

func addrsOf(nodes []*Server) []string {
	var addrs []string
	for _, s := range nodes {
		addrs = append(addrs, s.Addr)
	}
	return addrs
}

// StartCluster runs a fresh cluster until the end of the test, and returns when all its nodes agree that it works. A
// primary that is gone is replaced after about a second.
func StartCluster(tb testing.TB, kind Kind, args ...string) *Cluster {
	tb.Helper()
	RequireDocker(tb)
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	nodes, err := startNodes(2*primaries, func(int) (*Server, error) {
		s, err := startNode(ctx, kind, []string{clusterNode(kind, 6379, time.Second, args)})
		s.Addr = addrOf(s.ip, 6379)
		return s, err
	})
	own(tb, nodes)
	c := &Cluster{Nodes: nodes}
	if err == nil {
		err = formCluster(ctx, c.Addrs())
	}
	if err != nil {
		tb.Fatalf("start a cluster of %s: %v", kind, err)
	}
	return c
}

// SharedCluster returns the addresses of a cluster that all tests of this binary use. As with Shared, nobody may stop,
// flush or configure it.
func SharedCluster(tb testing.TB, kind Kind) []string {
	tb.Helper()
	s := sharedAs(tb, "cluster", kind, func(ctx context.Context, kind Kind) (*Server, error) {
		var programs []string
		for i := range 2 * primaries {
			programs = append(programs, clusterNode(kind, firstPort+i, 15*time.Second, nil))
		}
		s, err := startNode(ctx, kind, programs)
		if err != nil {
			return s, err
		}
		return s, formCluster(ctx, manyAddrs(s, 2*primaries))
	})
	return manyAddrs(s, 2*primaries)
}

// manyAddrs are the addresses of programs that share a container.
func manyAddrs(s *Server, count int) []string {
	var addrs []string
	for i := range count {
		addrs = append(addrs, addrOf(s.ip, firstPort+i))
	}
	return addrs
}

// plainServer is the command line of a server that saves nothing.
func plainServer(kind Kind, port int, args ...string) string {
	line := fmt.Sprintf("%s --port %d --save '' --protected-mode no --repl-diskless-sync-delay 0", kind.program(), port)
	return strings.Join(append([]string{line}, args...), " ")
}

func clusterNode(kind Kind, port int, timeout time.Duration, args []string) string {
	return plainServer(kind, port, append([]string{fmt.Sprintf(
		"--cluster-enabled yes --cluster-config-file nodes-%d.conf --cluster-node-timeout %d --cluster-replica-validity-factor 0",
		port, timeout.Milliseconds())}, args...)...)
}

// formCluster makes a cluster of nodes that do not know each other, and returns when all agree.
func formCluster(ctx context.Context, addrs []string) error {
	nodes, done := clientsOf(addrs)
	defer done()
	if err := onEachNode(nodes, func(i int, node *redis.Client) error { return introduce(ctx, i, node, addrs) }); err != nil {
		return err
	}
	for _, addr := range addrs[1:] {
		host, port, _ := strings.Cut(addr, ":")
		if err := nodes[0].ClusterMeet(ctx, host, port).Err(); err != nil {
			return fmt.Errorf("meet %s: %w", addr, err)
		}
	}
	if err := onEachNode(nodes, func(i int, node *redis.Client) error { return follow(ctx, i, node, nodes) }); err != nil {
		return err
	}
	return onEachNode(nodes, func(i int, node *redis.Client) error { return settle(ctx, i, node) })
}

// introduce waits for a node, and gives primary i its slots.
func introduce(ctx context.Context, i int, node *redis.Client, addrs []string) error {
	if err := awaitReady(ctx, addrs[i]); err != nil {
		return err
	}
	if i < primaries {
		if err := node.ClusterAddSlotsRange(ctx, i*slots/primaries, (i+1)*slots/primaries-1).Err(); err != nil {
			return err
		}
	}
	return node.Do(ctx, "cluster", "set-config-epoch", i+1).Err()
}

// follow makes a node that is not a primary the replica of one, as soon as it knows it.
func follow(ctx context.Context, i int, node *redis.Client, nodes []*redis.Client) error {
	if i < primaries {
		return nil
	}
	id, err := nodes[i-primaries].Do(ctx, "cluster", "myid").Text()
	if err != nil {
		return err
	}
	return retry(ctx, func() error { return node.ClusterReplicate(ctx, id).Err() })
}

// settle waits until a node says that all is well, and a replica that it has its primary's data.
func settle(ctx context.Context, i int, node *redis.Client) error {
	return retry(ctx, func() error {
		info, err := node.ClusterInfo(ctx).Result()
		if err != nil {
			return err
		}
		for _, want := range []string{"cluster_state:ok", "cluster_known_nodes:6", "cluster_size:3"} {
			if !strings.Contains(info, want) {
				return fmt.Errorf("no %s in %q", want, info)
			}
		}
		known, err := node.ClusterNodes(ctx).Result()
		if err != nil {
			return err
		}
		if strings.Count(known, "slave") != primaries || strings.Contains(known, "handshake") {
			return fmt.Errorf("no %d replicas in %q", primaries, known)
		}
		if i < primaries {
			return nil
		}
		return replicates(ctx, node)
	})
}

// replicates returns nil when a replica has its primary's data.
func replicates(ctx context.Context, node *redis.Client) error {
	info, err := node.Info(ctx, "replication").Result()
	if err == nil && !strings.Contains(info, "master_link_status:up") {
		err = errors.New("the replica is not in step yet")
	}
	return err
}

func clientsOf(addrs []string) (nodes []*redis.Client, done func()) {
	for _, addr := range addrs {
		nodes = append(nodes, redis.NewClient(&redis.Options{Addr: addr, DialTimeout: time.Second}))
	}
	return nodes, func() {
		for _, node := range nodes {
			node.Close()
		}
	}
}

// onEachNode runs f for all nodes side by side.
func onEachNode(nodes []*redis.Client, f func(i int, node *redis.Client) error) error {
	errs := make([]error, len(nodes))
	var running sync.WaitGroup
	for i, node := range nodes {
		running.Go(func() {
			if err := f(i, node); err != nil {
				errs[i] = fmt.Errorf("node %d at %s: %w", i, node.Options().Addr, err)
			}
		})
	}
	running.Wait()
	return errors.Join(errs...)
}

// retry calls f until it succeeds.
func retry(ctx context.Context, f func() error) error {
	again := time.NewTicker(20 * time.Millisecond)
	defer again.Stop()
	for {
		err := f()
		if err == nil {
			return nil
		}
		select {
		case <-again.C:
		case <-ctx.Done():
			return errors.Join(err, ctx.Err())
		}
	}
}
