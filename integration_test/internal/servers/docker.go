package servers

import (
	"context"
	"fmt"
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

// RequireDocker returns if containers can be started. Otherwise it fails the test where CI is set, since a run that
// skips its tests must not be green there, and skips it on a developer's machine. No other function skips.
func RequireDocker(tb testing.TB) {
	tb.Helper()
	_, err := engine()
	if err == nil {
		return
	}
	message := fmt.Sprintf("Docker is needed to run real servers, and it does not answer: %v", err)
	if os.Getenv("CI") != "" {
		tb.Fatal(message)
	}
	// The reason of a skip is shown by go test -v only.
	fmt.Fprintf(os.Stderr, "SKIPPED %s: %s\n", tb.Name(), message)
	tb.Skip(message)
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
