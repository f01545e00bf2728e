package integration_test

import (
	"os/exec"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/wait"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// redisImage is the image that images/build.sh made, where none can be pulled.
func redisImage(t *testing.T) string {
	servers.RequireDocker(t)
	const local = "redislimiter-test/redis:8.0"
	if exec.Command("docker", "image", "inspect", local).Run() == nil {
		return local
	}
	return "redis:8.0"
}

// The recipe of docs/recipes.md for a test on a real server.
func TestOrdersOnARealRedis(t *testing.T) {
	image := redisImage(t)
	ctx := t.Context()

	server, err := testcontainers.Run(ctx, image,
		testcontainers.WithExposedPorts("6379/tcp"),
		testcontainers.WithWaitStrategy(wait.ForLog("Ready to accept connections")))
	testcontainers.CleanupContainer(t, server)
	if err != nil {
		t.Fatal(err)
	}
	addr, err := server.PortEndpoint(ctx, "6379/tcp", "")
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Addr: addr})
	defer rdb.Close()
	limiter, err := redislimiter.New(rdb, "orders", redislimiter.SlidingWindowLog(2, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	if err := limiter.Check(ctx); err != nil {
		t.Fatal(err)
	}
	for _, want := range []bool{true, true, false} {
		result, err := limiter.Allow(ctx, "customer-7")
		if err != nil || result.Allowed != want {
			t.Fatalf("%+v, %v", result, err)
		}
	}
}
