package integration_test

import (
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

// The primary is killed under load. Redis decides again within a second of the sentinels naming another one, and what
// is lost is at most what was charged in the last moment.
func TestSentinelFailoverUnderLoad(t *testing.T) {
	onEach(t, func(t *testing.T, kind servers.Kind) {
		s := servers.StartSentinel(t, kind)
		run := laySiege(t, place{MasterName: servers.MasterName, Addrs: s.Addrs})
		killed := time.Now()
		s.Nodes[0].Kill()
		named := anotherPrimary(t, s)
		run.awaitRedis(t, named)
		o := run.lift(t)
		o.failover(t, killed, named, allKeys())
	})
}

// anotherPrimary waits until the sentinels name another primary than the first, and tells when.
func anotherPrimary(t *testing.T, s *servers.Sentinel) time.Time {
	t.Helper()
	for _, addr := range s.Addrs {
		sentinel := redis.NewSentinelClient(&redis.Options{Addr: addr})
		defer sentinel.Close()
		eventually.True(t, 20*time.Second, "a sentinel names another primary", func() bool {
			named, err := sentinel.GetMasterAddrByName(t.Context(), servers.MasterName).Result()
			return err == nil && named[0]+":"+named[1] != s.Nodes[0].Addr
		})
	}
	return time.Now()
}

// failover checks what a failover costs: the keys' charges of the last second at most, and a second until Redis decides
// again once there is a primary.
func (o outcome) failover(t *testing.T, failed, replaced time.Time, keys []int) {
	t.Helper()
	least, most := o.lost()
	bound := o.admittedBetween(failed.Add(-time.Second), replaced, keys)
	resumed := o.resumed(replaced, keys)
	t.Logf("replaced after %v; Redis decided again %v after that; %d to %d charges lost, of %d in the last second",
		replaced.Sub(failed).Round(time.Millisecond), resumed.Round(time.Millisecond), least, most, bound)
	if least > bound {
		t.Errorf("at least %d charges are lost, though only %d were made in the last second", least, bound)
	}
	if resumed > resumption+2*cooldown {
		t.Errorf("Redis decides again after %v, want %v at most", resumed, resumption+2*cooldown)
	}
}
