package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// A Cluster is some primaries without replicas, in one container.
type Cluster struct {
	Addrs []string
	nodes []*Server
	end   func()
}

const slots = 16384

// StartCluster runs a cluster of n primaries that share the slots evenly.
func StartCluster(ctx context.Context, n int) (*Cluster, error) {
	ports, err := freePorts(2 * n)
	if err != nil {
		return nil, err
	}
	var run strings.Builder
	c := &Cluster{}
	for i := range n {
		fmt.Fprintf(&run, "redis-server --save '' --bind 127.0.0.1 --port %d --cluster-enabled yes --cluster-port %d --cluster-config-file /tmp/nodes-%d >/dev/null & nodes=\"$nodes $!\"; ",
			ports[i], ports[n+i], i)
		c.Addrs = append(c.Addrs, fmt.Sprint("127.0.0.1:", ports[i]))
	}
	cmd := exec.Command("docker", "run", "-i", "--rm", "--label", "redislimiter-benchmarks", "--network", "host", image(ctx), "sh", "-c",
		run.String()+"cat; kill $nodes; wait")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	c.end = func() {
		stdin.Close()
		_ = cmd.Wait()
	}
	if err := c.join(ctx, ports); err != nil {
		c.Stop()
		return nil, err
	}
	return c, nil
}

func freePorts(n int) ([]int, error) {
	var ports []int
	for range n {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			return nil, err
		}
		defer listener.Close() // all at the end: no port twice
		ports = append(ports, listener.Addr().(*net.TCPAddr).Port)
	}
	return ports, nil
}

// join gives every node its slots and lets it meet the others.
func (c *Cluster) join(ctx context.Context, ports []int) error {
	n := len(c.Addrs)
	for i, addr := range c.Addrs {
		s := &Server{Addr: addr, Client: redis.NewClient(&redis.Options{Addr: addr})}
		c.nodes = append(c.nodes, s)
		if err := s.await(ctx); err != nil {
			return err
		}
		if err := s.ClusterAddSlotsRange(ctx, i*slots/n, (i+1)*slots/n-1).Err(); err != nil {
			return err
		}
		if err := s.Do(ctx, "cluster", "set-config-epoch", i+1).Err(); err != nil {
			return err
		}
	}
	for i := range n {
		if err := c.nodes[0].Do(ctx, "cluster", "meet", "127.0.0.1", ports[i], ports[n+i]).Err(); err != nil {
			return err
		}
	}
	for range 600 {
		if c.whole(ctx) {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("the nodes at %v make no cluster", c.Addrs)
}

// whole reports whether every node knows the owner of every slot.
func (c *Cluster) whole(ctx context.Context) bool {
	for _, s := range c.nodes {
		known, err := s.ClusterShards(ctx).Result()
		info := s.ClusterInfo(ctx).Val()
		if err != nil || len(known) != len(c.nodes) || slices.ContainsFunc(known, func(shard redis.ClusterShard) bool { return len(shard.Slots) == 0 }) || !strings.Contains(info, "cluster_state:ok") {
			return false
		}
	}
	return true
}

// Usage is that of all nodes together.
func (c *Cluster) Usage(ctx context.Context) (Usage, error) {
	sum := Usage{Calls: map[string]float64{}, Micros: map[string]float64{}}
	for _, s := range c.nodes {
		u, err := s.Usage(ctx)
		if err != nil {
			return sum, err
		}
		sum.CPU += u.CPU
		sum.Memory += u.Memory
		for command, calls := range u.Calls {
			sum.Calls[command] += calls
			sum.Micros[command] += u.Micros[command]
		}
	}
	return sum, nil
}

// Stop ends the cluster.
func (c *Cluster) Stop() {
	for _, s := range c.nodes {
		s.Close()
	}
	c.end()
}
