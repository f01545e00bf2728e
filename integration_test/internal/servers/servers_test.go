package servers_test

import (
	"context"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/eventually"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
)

func TestMain(m *testing.M) {
	os.Exit(servers.Main(m))
}

// dial makes a client that tries once: the tests are about the servers, not about how go-redis repeats.
func dial(t *testing.T, addr string) *redis.Client {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Addr:                  addr,
		MaxRetries:            -1,
		DialerRetries:         1,
		DialTimeout:           time.Second,
		ContextTimeoutEnabled: true,
	})
	t.Cleanup(func() { rdb.Close() })
	return rdb
}

func TestSharedServerIsOfItsKind(t *testing.T) {
	versions := map[servers.Kind]string{
		servers.Redis70:  "redis_version:7.0.",
		servers.Redis80:  "redis_version:8.0.",
		servers.Valkey81: "valkey_version:8.1.",
	}
	for _, kind := range servers.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			rdb := dial(t, servers.Shared(t, kind))
			if err := rdb.Ping(t.Context()).Err(); err != nil {
				t.Fatal(err)
			}
			info, err := rdb.Info(t.Context(), "server").Result()
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(info, versions[kind]) {
				t.Errorf("want %s in:\n%s", versions[kind], info)
			}
		})
	}
}

func TestSharedServerIsStartedOnce(t *testing.T) {
	first := servers.Shared(t, servers.Redis80)
	if second := servers.Shared(t, servers.Redis80); second != first {
		t.Errorf("first at %s, then at %s", first, second)
	}
	if s := servers.Start(t, servers.Redis80); s.Addr == first {
		t.Errorf("the fresh server is the shared one, at %s", first)
	}
}

func TestStartPassesArguments(t *testing.T) {
	for _, kind := range servers.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			rdb := dial(t, servers.Start(t, kind, "--maxmemory", "10mb", "--maxmemory-policy", "noeviction").Addr)
			got, err := rdb.ConfigGet(t.Context(), "maxmemory").Result()
			if err != nil || got["maxmemory"] != "10485760" {
				t.Errorf("maxmemory = %v, %v", got, err)
			}
		})
	}
}

func TestKilledServerRefusesAndComesBackEmptyOnTheSameAddress(t *testing.T) {
	for _, kind := range servers.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			s := servers.Start(t, kind)
			rdb := dial(t, s.Addr)
			if err := rdb.Set(t.Context(), "before", 1, 0).Err(); err != nil {
				t.Fatal(err)
			}
			s.Kill()
			if err := rdb.Ping(t.Context()).Err(); err == nil {
				t.Fatal("a killed server answers")
			}
			s.Restart()
			if n, err := rdb.Exists(t.Context(), "before").Result(); err != nil || n != 0 {
				t.Errorf("after the restart: exists = %d, %v; want 0", n, err)
			}
		})
	}
}

func TestStoppedServerComesBackWithWhatItSaved(t *testing.T) {
	s := servers.Start(t, servers.Redis80, "--appendonly", "yes")
	rdb := dial(t, s.Addr)
	if err := rdb.Set(t.Context(), "before", "kept", 0).Err(); err != nil {
		t.Fatal(err)
	}
	s.Stop()
	s.Restart()
	if got, err := rdb.Get(t.Context(), "before").Result(); err != nil || got != "kept" {
		t.Errorf("after the restart: %q, %v", got, err)
	}
}

func TestPausedServerAnswersNothingUntilUnpaused(t *testing.T) {
	s := servers.Start(t, servers.Redis70)
	rdb := dial(t, s.Addr)
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.Pause()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := rdb.Incr(ctx, "late").Err(); err == nil {
		t.Fatal("a paused server answers")
	}
	s.Unpause()
	// The client gave up, but its request had reached the server's socket.
	eventually.True(t, 5*time.Second, "the request sent during the pause is run", func() bool {
		n, err := rdb.Get(t.Context(), "late").Int()
		return err == nil && n == 1
	})
}

func TestPausedServerIsRemovedAtTheEnd(t *testing.T) {
	var s *servers.Server
	t.Run("pause and leave it so", func(t *testing.T) {
		s = servers.Start(t, servers.Redis70)
		s.Pause()
	})
	if s != nil && s.Container.IsRunning() {
		t.Error("the container is still there")
	}
}
