package servers_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
)

func set(t *testing.T, rdb redis.UniversalClient) {
	t.Helper()
	t.Cleanup(func() { rdb.Close() })
	for range 20 {
		if err := rdb.Set(t.Context(), servers.Key(t), 1, time.Minute).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

// On the other kinds of servers the conformance suite runs on them.
func TestSharedTopologiesAnswer(t *testing.T) {
	const kind = servers.Redis80
	addr, config := servers.SharedTLS(t, kind)
	for name, rdb := range map[string]redis.UniversalClient{
		"cluster": redis.NewClusterClient(&redis.ClusterOptions{Addrs: servers.SharedCluster(t, kind)[:1]}),
		"sentinel": redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: servers.MasterName, SentinelAddrs: servers.SharedSentinel(t, kind)}),
		"ring": redis.NewRing(&redis.RingOptions{Addrs: servers.SharedRing(t, kind)}),
		"TLS":  redis.NewClient(&redis.Options{Addr: addr, TLSConfig: config}),
	} {
		t.Run(name, func(t *testing.T) { set(t, rdb) })
	}
}

func TestTLSServerRefusesStrangers(t *testing.T) {
	addr, config := servers.SharedTLS(t, servers.Redis80)
	config.Certificates = nil
	rdb := redis.NewClient(&redis.Options{Addr: addr, TLSConfig: config, MaxRetries: -1, DialerRetries: 1})
	defer rdb.Close()
	if err := rdb.Ping(t.Context()).Err(); err == nil {
		t.Error("a client without a certificate got an answer")
	}
}

func TestIsolatedNodeIsSilentAndComesBackAtItsAddress(t *testing.T) {
	cut := servers.StartSentinel(t, servers.Redis80).Nodes[1]
	rdb := redis.NewClient(&redis.Options{Addr: cut.Addr, MaxRetries: -1, DialerRetries: 1, DialTimeout: 300 * time.Millisecond})
	defer rdb.Close()
	cut.Isolate()
	if err := rdb.Ping(t.Context()).Err(); err == nil {
		t.Error("an isolated node answers")
	}
	if got := cut.Exec("PING"); got != "PONG" {
		t.Errorf("inside, it answers %q", got)
	}
	cut.Rejoin()
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after it came back: %v", err)
	}
}
