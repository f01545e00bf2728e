package integration_test

import (
	"maps"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
)

// A topology is a way in which users run Redis, and reach it.
type topology struct {
	name  string
	kinds []servers.Kind
	open  func(t *testing.T, kind servers.Kind) redis.UniversalClient
}

var topologies = []topology{
	{"node, RESP2", []servers.Kind{servers.Redis80}, func(t *testing.T, kind servers.Kind) redis.UniversalClient {
		return dialWith(t, &redis.Options{Addr: servers.Shared(t, kind), Protocol: 2})
	}},
	{"node, RESP3, ACL", servers.Kinds(), func(t *testing.T, kind servers.Kind) redis.UniversalClient {
		user := documentedUser(t, servers.Shared(t, kind), false)
		return dialWith(t, &redis.Options{Addr: servers.Shared(t, kind), Protocol: 3, Username: user, Password: aclPassword})
	}},
	{"node, TLS", []servers.Kind{servers.Redis80}, func(t *testing.T, kind servers.Kind) redis.UniversalClient {
		addr, config := servers.SharedTLS(t, kind)
		return dialWith(t, &redis.Options{Addr: addr, TLSConfig: config})
	}},
	{"Sentinel", []servers.Kind{servers.Redis80}, func(t *testing.T, kind servers.Kind) redis.UniversalClient {
		return place{MasterName: servers.MasterName, Addrs: servers.SharedSentinel(t, kind)}.dial(t)
	}},
	{"Cluster, RESP2", servers.Kinds(), func(t *testing.T, kind servers.Kind) redis.UniversalClient {
		return place{Cluster: true, Addrs: servers.SharedCluster(t, kind), Protocol: 2}.dial(t)
	}},
	{"Cluster, RESP3, ACL", []servers.Kind{servers.Redis80}, func(t *testing.T, kind servers.Kind) redis.UniversalClient {
		p := place{Cluster: true, Addrs: servers.SharedCluster(t, kind), Protocol: 3, Password: aclPassword}
		for _, addr := range p.Addrs {
			p.Username = documentedUser(t, addr, true)
		}
		return p.dial(t)
	}},
	{"Ring", []servers.Kind{servers.Redis80}, func(t *testing.T, kind servers.Kind) redis.UniversalClient {
		return place{Ring: servers.SharedRing(t, kind)}.dial(t)
	}},
}

// onEachTopology runs a test on every topology and kind of server that it is for, side by side. What is measured in
// time must not be tested so.
func onEachTopology(t *testing.T, test func(t *testing.T, rdb redis.UniversalClient)) {
	for _, top := range topologies {
		for _, kind := range top.kinds {
			t.Run(top.name+", "+string(kind), func(t *testing.T) {
				t.Parallel()
				test(t, top.open(t, kind))
			})
		}
	}
}

// A place is where a limiter's state is, in a form that other processes can be told.
type place struct {
	Addrs              []string          // of a server, of cluster nodes or of sentinels
	MasterName         string            // for sentinels
	Cluster            bool              // for a cluster
	Ring               map[string]string // for a Ring, instead of Addrs
	Protocol           int
	Username, Password string
}

// clientPatience is what docs/operations.md advises for a client's timeouts.
const clientPatience = 500 * time.Millisecond

// open makes a client with the options that docs/operations.md advises.
func (p place) open() redis.UniversalClient {
	if p.Ring != nil {
		return redis.NewRing(&redis.RingOptions{
			Addrs: maps.Clone(p.Ring), Protocol: p.Protocol, DialTimeout: clientPatience, ReadTimeout: clientPatience, DialerRetries: 1,
		})
	}
	return redis.NewUniversalClient(&redis.UniversalOptions{
		Addrs: p.Addrs, MasterName: p.MasterName, IsClusterMode: p.Cluster, Protocol: p.Protocol,
		Username: p.Username, Password: p.Password,
		DialTimeout: clientPatience, ReadTimeout: clientPatience, WriteTimeout: clientPatience, DialerRetries: 1, ContextTimeoutEnabled: true,
	})
}

func (p place) dial(t *testing.T) redis.UniversalClient {
	t.Helper()
	rdb := p.open()
	t.Cleanup(func() { rdb.Close() })
	return rdb
}
