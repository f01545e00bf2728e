package servers

import (
	"context"
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

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
		for kind, s := range shared {
			if s.server == nil || s.server.Container == nil {
				continue
			}
			err := testcontainers.TerminateContainer(s.server.Container, testcontainers.StopTimeout(time.Second))
			if err != nil {
				fmt.Fprintf(os.Stderr, "remove the shared %s: %v\n", kind, err)
				code = max(code, 1)
			}
		}
	}()
	return m.Run()
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
