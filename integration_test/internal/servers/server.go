// Package servers runs real Redis and Valkey servers in containers.
//
// Most tests only need some server and take the Shared one, with keys of their own (see Key). A test that stops,
// pauses, configures or flushes a server takes a fresh one from Start.
package servers

import (
	"context"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/ports"
)

// patience bounds each operation on a container. It allows for a first pull of the image.
const patience = 3 * time.Minute

// serverPort is where the server listens inside its container.
var serverPort = network.MustParsePort("6379/tcp")

// Server is a server in a container of its own. Its methods fail the test when Docker does not do as it is told, and
// return when what they ask for is the case.
type Server struct {
	Kind      Kind
	Addr      string                   // host:port as seen from the test; stays the same over restarts
	Container testcontainers.Container // for what the methods below do not offer

	tb     testing.TB
	ip     netip.Addr // on the private network; otherwise unset
	paused bool
}

// Start runs a fresh server until the end of the test, and returns when it answers. The arguments are the server
// program's own: "--maxmemory", "10mb". It saves nothing unless they ask for it. The port inside cannot be changed.
func Start(tb testing.TB, kind Kind, args ...string) *Server {
	tb.Helper()
	RequireDocker(tb)
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	s, err := start(ctx, kind, args)
	testcontainers.CleanupContainer(tb, s.Container, testcontainers.StopTimeout(time.Second))
	if err != nil {
		tb.Fatalf("start %s: %v", kind, err)
	}
	s.tb = tb
	tb.Cleanup(func() {
		if s.paused { // a paused process cannot be asked to end
			s.Unpause()
		}
	})
	return s
}

// start always returns a server; its container may be nil, or one that must be removed, when there is an error.
func start(ctx context.Context, kind Kind, args []string) (*Server, error) {
	s := &Server{Kind: kind}
	docker, err := engine()
	if err != nil {
		return s, err
	}
	host, bind, err := publishOn(ctx)
	if err != nil {
		return s, err
	}
	image := kind.image(ctx, docker)
	for range 5 {
		var port int
		if port, err = ports.Free(); err != nil {
			return s, err
		}
		s.Addr = net.JoinHostPort(host, strconv.Itoa(port))
		if s.Container, err = run(ctx, image, command(kind, args), bind, port); err == nil {
			return s, awaitReady(ctx, s.Addr)
		}
		if !strings.Contains(err.Error(), "already allocated") && !strings.Contains(err.Error(), "already in use") {
			break
		}
		// Another process took the port: the container exists, but will never run.
		_ = testcontainers.TerminateContainer(s.Container)
	}
	return s, fmt.Errorf("image %s (where no registry is reachable, images/build.sh makes it): %w", image, err)
}

// run publishes a port that we chose. One that Docker chose would be another one after each restart, and the address
// of the container itself cannot be reached from everywhere (not on Docker Desktop).
func run(ctx context.Context, image string, command []string, bind netip.Addr, port int) (testcontainers.Container, error) {
	c, err := testcontainers.Run(ctx, image,
		testcontainers.WithCmd(command...),
		testcontainers.WithLabels(map[string]string{label: "true"}),
		testcontainers.WithExposedPorts(serverPort.String()),
		testcontainers.WithHostConfigModifier(func(config *container.HostConfig) {
			config.PortBindings = network.PortMap{
				serverPort: {{HostIP: bind, HostPort: strconv.Itoa(port)}},
			}
		}),
	)
	if c == nil { // a nil pointer in an interface would not be nil to the clean-up
		return nil, err
	}
	return c, err
}

// publishOn returns the host under which published ports are reached, and the address to publish them on. The servers
// have no password, so on the machine itself only the loopback interface gets them.
func publishOn(ctx context.Context) (host string, bind netip.Addr, err error) {
	provider, err := testcontainers.NewDockerProvider()
	if err != nil {
		return "", netip.Addr{}, err
	}
	defer provider.Close()
	if host, err = provider.DaemonHost(ctx); err != nil {
		return "", netip.Addr{}, err
	}
	if host == "localhost" || host == "127.0.0.1" {
		return "127.0.0.1", netip.AddrFrom4([4]byte{127, 0, 0, 1}), nil
	}
	return host, netip.IPv4Unspecified(), nil
}

// command switches saving off first, so that the public images behave as ours; later arguments win.
func command(kind Kind, args []string) []string {
	return append([]string{kind.program(), "--save", "", "--protected-mode", "no"}, args...)
}
