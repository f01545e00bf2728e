package servers

import (
	"context"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/log"
)

// engine is the connection to Docker, found once: testcontainers caches what it finds, failures too.
var engine = sync.OnceValues(func() (*testcontainers.DockerClient, error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if !testing.Verbose() {
		log.SetDefault(log.NewNoopLogger())
	}
	prepareEnvironment(ctx)
	docker, err := testcontainers.NewDockerClientWithOpts(ctx)
	if err != nil {
		return nil, err
	}
	if _, err := docker.Ping(ctx, client.PingOptions{}); err != nil {
		return nil, err
	}
	return docker, nil
})

// RequireDocker fails the test where no container can be started: go test would not show a skip. `make test` leaves these
// tests out then, and says so.
func RequireDocker(tb testing.TB) {
	tb.Helper()
	if _, err := engine(); err != nil {
		tb.Fatalf("Docker is needed to run real servers, and it does not answer: %v", err)
	}
}

// prepareEnvironment tells testcontainers what it guesses wrong. It reads these variables once, at its first use.
// Values that are already set stay.
func prepareEnvironment(ctx context.Context) {
	// In a container, testcontainers takes the gateway for the machine that publishes ports. That is wrong when the
	// engine runs beside us, in the same network namespace, which its bridge device gives away.
	if _, err := net.InterfaceByName("docker0"); err == nil {
		setDefault("TESTCONTAINERS_HOST_OVERRIDE", "localhost")
	}
	docker, err := client.New(client.FromEnv)
	if err != nil {
		return
	}
	defer docker.Close()
	if haveImage(ctx, docker, localPrefix+"*") && !haveImage(ctx, docker, "testcontainers/ryuk") {
		// Images were built here because none can be pulled, and that goes for the reaper's image too. Containers of
		// a test binary that is killed then stay; they carry the label below.
		setDefault("TESTCONTAINERS_RYUK_DISABLED", "true")
	}
}

// label is on every container, to find those that a killed test binary left behind:
//
//	docker rm -f $(docker ps -aq --filter label=redislimiter-test)
const label = "redislimiter-test"

func haveImage(ctx context.Context, docker client.ImageAPIClient, reference string) bool {
	found, err := docker.ImageList(ctx, client.ImageListOptions{
		Filters: make(client.Filters).Add("reference", reference),
	})
	return err == nil && len(found.Items) > 0
}

func setDefault(name, value string) {
	if _, set := os.LookupEnv(name); !set {
		os.Setenv(name, value)
	}
}
