package servers

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	"github.com/testcontainers/testcontainers-go/exec"
)

// startNode starts a container of several server programs on the private network, without waiting until they answer.
// Each program is a command line for the shell.
func startNode(ctx context.Context, kind Kind, programs []string, files ...testcontainers.ContainerFile) (*Server, error) {
	s := &Server{Kind: kind}
	docker, err := engine()
	if err != nil {
		return s, err
	}
	n, err := onlyNetwork()
	if err != nil {
		return s, err
	}
	if s.ip, err = n.next(); err != nil {
		return s, err
	}
	// A single program takes the shell's place, and so gets its signals.
	script := "exec " + programs[0]
	if len(programs) > 1 {
		script = ""
		for _, p := range programs {
			script += p + " & "
		}
		script += "wait"
	}
	c, err := testcontainers.Run(ctx, kind.image(ctx, docker),
		testcontainers.WithCmd("sh", "-c", script),
		testcontainers.WithLabels(map[string]string{label: "true"}),
		testcontainers.WithFiles(files...),
		testcontainers.CustomizeRequest(testcontainers.GenericContainerRequest{
			ContainerRequest: testcontainers.ContainerRequest{Networks: []string{n.name}},
		}),
		testcontainers.WithEndpointSettingsModifier(func(settings map[string]*network.EndpointSettings) {
			settings[n.name] = endpoint(s.ip)
		}),
	)
	if c != nil { // a nil pointer in an interface would not be nil to the clean-up
		s.Container = c
	}
	return s, err
}

// startNodes starts containers side by side, and returns all of them also when one fails.
func startNodes(count int, start func(i int) (*Server, error)) ([]*Server, error) {
	nodes, errs := make([]*Server, count), make([]error, count)
	var starting sync.WaitGroup
	for i := range count {
		starting.Go(func() { nodes[i], errs[i] = start(i) })
	}
	starting.Wait()
	return nodes, errors.Join(errs...)
}

func addrOf(ip netip.Addr, port int) string {
	return net.JoinHostPort(ip.String(), strconv.Itoa(port))
}

// stopAtOnce ends a container without a farewell.
const stopAtOnce = time.Duration(0)

// own makes servers the test's: they are removed at the end, side by side, and their methods fail this test.
func own(tb testing.TB, nodes []*Server) {
	for _, s := range nodes {
		s.tb = tb
	}
	tb.Cleanup(func() {
		var removing sync.WaitGroup
		for _, s := range nodes {
			if s.Container == nil {
				continue
			}
			if s.paused { // a paused process cannot be asked to end
				s.Unpause()
			}
			removing.Go(func() {
				if err := testcontainers.TerminateContainer(s.Container, testcontainers.StopTimeout(stopAtOnce)); err != nil {
					tb.Errorf("remove %s at %s: %v", s.Kind, s.Addr, err)
				}
			})
		}
		removing.Wait()
	})
}

// Isolate takes the server off the network: nobody reaches it and it reaches nobody, packets are dropped without an
// answer. It runs on, and Exec still gets to it. Only for servers of a topology.
func (s *Server) Isolate() {
	s.tb.Helper()
	s.do("isolate", func(ctx context.Context, docker *testcontainers.DockerClient) error {
		n, err := onlyNetwork()
		if err != nil {
			return err
		}
		_, err = docker.NetworkDisconnect(ctx, n.id, client.NetworkDisconnectOptions{Container: s.Container.GetContainerID()})
		return err
	})
}

// Rejoin ends Isolate, at the same address.
func (s *Server) Rejoin() {
	s.tb.Helper()
	s.do("rejoin", func(ctx context.Context, docker *testcontainers.DockerClient) error {
		n, err := onlyNetwork()
		if err != nil {
			return err
		}
		if _, err = docker.NetworkConnect(ctx, n.id, client.NetworkConnectOptions{
			Container: s.Container.GetContainerID(), EndpointConfig: endpoint(s.ip),
		}); err != nil {
			return err
		}
		return awaitReady(ctx, s.Addr)
	})
}

// Exec runs a command of the server's own client program inside the container, and returns what it prints.
func (s *Server) Exec(args ...string) string {
	s.tb.Helper()
	var text string
	s.do("exec", func(ctx context.Context, _ *testcontainers.DockerClient) error {
		_, out, err := s.Container.Exec(ctx, append([]string{s.Kind.client()}, args...), exec.Multiplexed())
		if err != nil {
			return err
		}
		printed, err := io.ReadAll(out)
		text = strings.TrimSpace(string(printed))
		return err
	})
	return text
}
