package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/testcontainers/testcontainers-go"
)

// A server that several tests share: started by the first of them, removed by Main after the last.
type sharedServer struct {
	once   sync.Once
	server *Server
	err    error
}

var shared = map[Kind]*sharedServer{Redis70: {}, Redis80: {}, Valkey81: {}}

// cleansUp is set by Main before the first test runs, and only read after that.
var cleansUp bool

// Main runs the tests and then removes the shared servers. Call it from TestMain: os.Exit(servers.Main(m)).
func Main(m *testing.M) (code int) {
	cleansUp = true
	defer func() {
		if err := removeShared(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			code = max(code, 1)
		}
	}()
	return m.Run()
}

func removeShared() error {
	var mu sync.Mutex
	var errs []error
	var removing sync.WaitGroup
	remove := func(what string, s *Server) {
		if s == nil || s.Container == nil {
			return
		}
		removing.Go(func() {
			if err := testcontainers.TerminateContainer(s.Container, testcontainers.StopTimeout(stopAtOnce)); err != nil {
				mu.Lock()
				defer mu.Unlock()
				errs = append(errs, fmt.Errorf("remove the shared %s: %w", what, err))
			}
		})
	}
	for kind, s := range shared {
		remove(string(kind), s.server)
	}
	for name, s := range sharedTopologies.all {
		remove(name.shape+" of "+string(name.kind), s.server)
	}
	removing.Wait()
	if networkMade != nil {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := networkMade.remove(ctx); err != nil {
			errs = append(errs, fmt.Errorf("remove the private network: %w", err))
		}
	}
	return errors.Join(errs...)
}

// Shared returns the address of a server that all tests of this binary use. It is an address only, so that no test
// stops or pauses it for the others; for the same reason never flush it or change its configuration.
func Shared(tb testing.TB, kind Kind) string {
	tb.Helper()
	RequireDocker(tb)
	if !cleansUp {
		tb.Fatal("TestMain must call servers.Main, or the shared servers would never be removed")
	}
	s, ok := shared[kind]
	if !ok {
		tb.Fatalf("no such kind of server: %q", kind)
	}
	s.once.Do(func() {
		// Not the test's context: the server outlives the test that happens to come first.
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		s.server, s.err = start(ctx, kind, nil)
	})
	if s.err != nil {
		tb.Fatalf("start the shared %s: %v", kind, s.err)
	}
	return s.server.Addr
}

// Key returns a key, or the name of a limiter, that no other test and no other run uses.
func Key(tb testing.TB) string {
	return tb.Name() + "/" + rand.Text()
}

// A sharedTopology is several server programs in one container, which no test stops.
type sharedTopology struct {
	once   sync.Once
	server *Server
	err    error
}

type topologyName struct {
	shape string
	kind  Kind
}

var sharedTopologies = struct {
	sync.Mutex
	all map[topologyName]*sharedTopology
}{all: map[topologyName]*sharedTopology{}}

// sharedAs returns the container that all tests of this binary use for one shape, started by the first of them.
func sharedAs(tb testing.TB, shape string, kind Kind, start func(context.Context, Kind) (*Server, error)) *Server {
	tb.Helper()
	RequireDocker(tb)
	if !cleansUp {
		tb.Fatal("TestMain must call servers.Main, or the shared servers would never be removed")
	}
	sharedTopologies.Lock()
	name := topologyName{shape, kind}
	s := sharedTopologies.all[name]
	if s == nil {
		s = &sharedTopology{}
		sharedTopologies.all[name] = s
	}
	sharedTopologies.Unlock()
	s.once.Do(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience) // it outlives the test that comes first
		defer cancel()
		s.server, s.err = start(ctx, kind)
	})
	if s.err != nil {
		tb.Fatalf("start the shared %s of %s: %v", shape, kind, s.err)
	}
	return s.server
}
