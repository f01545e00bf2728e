// Package compose holds `make up` to what it promises: the demo in containers, with the page.
package compose

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/demo"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/eventually"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/ports"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
)

// soon is how long containers may take for what they are told, on a machine that runs other things too.
const soon = 30 * time.Second

// A project is containers that `make up` started, beside whatever else runs.
type project struct {
	t           *testing.T
	name        string
	environment []string
	page        string
}

// up starts a project that ends with the test.
func up(t *testing.T, settings ...string) *project {
	t.Helper()
	servers.RequireDocker(t)
	name := "redislimiter-test-" + strings.ToLower(rand.Text()[:12])
	port, redisPort := free(t), free(t)
	p := &project{t: t, name: name, page: fmt.Sprintf("http://127.0.0.1:%d", port)}
	p.environment = append(os.Environ(), "COMPOSE_PROJECT_NAME="+name, "DEMO_IMAGE="+name, fmt.Sprintf("PORT=%d", port), fmt.Sprintf("REDIS_PORT=%d", redisPort))
	p.environment = append(p.environment, settings...)
	t.Cleanup(func() {
		p.run(context.Background(), "make", "--no-print-directory", "down")
		p.run(context.Background(), "docker", "rmi", name)
	})
	p.run(t.Context(), "make", "--no-print-directory", "up")
	p.answers("/", "<title>go-redislimiter")
	p.answers("/api/state", `"instances"`)
	return p
}

// answers waits for a path to be served with that in it.
func (p *project) answers(path, part string) {
	p.t.Helper()
	eventually.True(p.t, soon, path+" is served", func() bool {
		response, err := http.Get(p.page + path)
		if err != nil {
			return false
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return err == nil && response.StatusCode == http.StatusOK && strings.Contains(string(body), part)
	})
}

func free(t *testing.T) int {
	t.Helper()
	port, err := ports.Free()
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func (p *project) run(ctx context.Context, name string, args ...string) string {
	p.t.Helper()
	ctx, cancel := context.WithTimeout(ctx, 3*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Env = demo.Root(p.t), p.environment
	began := time.Now()
	out, err := cmd.CombinedOutput()
	p.t.Logf("%.1f s: %s %s", time.Since(began).Seconds(), name, strings.Join(args, " "))
	if err != nil {
		p.t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// container is the one of a service. Compose itself takes seconds for what the engine does at once.
func (p *project) container(service string) string {
	p.t.Helper()
	id := strings.TrimSpace(p.run(p.t.Context(), "docker", "ps", "-aq",
		"--filter", "label=com.docker.compose.project="+p.name, "--filter", "label=com.docker.compose.service="+service))
	if id == "" || strings.Contains(id, "\n") {
		p.t.Fatalf("containers of %s: %q, want one", service, id)
	}
	return id
}

func (p *project) kill(service string) {
	p.t.Helper()
	p.run(p.t.Context(), "docker", "kill", p.container(service))
}
func (p *project) start(service string) {
	p.t.Helper()
	p.run(p.t.Context(), "docker", "start", p.container(service))
}

// state is a part of what the page shows.
type state struct {
	Limit     struct{ Text string }
	Instances []struct {
		Name     string
		Up       bool
		Current  bool
		Admitted float64
		Sources  map[string]float64
	}
	Total struct{ Sources map[string]float64 }
	Bound struct {
		Admitted, AtMost int64
		Broken           bool
	}
	Settings struct {
		OnFailure string
		Rate      int
	}
}

func (p *project) state() (s state) {
	p.t.Helper()
	response, err := http.Get(p.page + "/api/state")
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	if err := json.NewDecoder(response.Body).Decode(&s); err != nil {
		p.t.Fatal(err)
	}
	if s.Bound.Broken {
		p.t.Fatalf("the limit does not hold: %+v", s.Bound)
	}
	return s
}

// decides waits until every instance has all its decisions from one source.
func (p *project) decides(source string) {
	p.t.Helper()
	var last state
	defer func() {
		if p.t.Failed() {
			p.t.Logf("%+v", last)
		}
	}()
	eventually.True(p.t, soon, "all is decided by "+source, func() bool {
		last = p.state()
		for _, i := range last.Instances {
			if i.Up && (len(i.Sources) != 1 || i.Sources[source] == 0) {
				return false
			}
		}
		return len(last.Instances) == 3
	})
}

// put changes something as the page does.
func (p *project) put(path, body string) {
	p.t.Helper()
	request, err := http.NewRequestWithContext(p.t.Context(), http.MethodPut, p.page+path, bytes.NewBufferString(body))
	if err != nil {
		p.t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		answer, _ := io.ReadAll(response.Body)
		p.t.Fatalf("PUT %s %s: %s %s", path, body, response.Status, answer)
	}
}

// status asks the application once, through the edge.
func (p *project) status() int {
	p.t.Helper()
	response, err := http.Get(p.page + "/hello")
	if err != nil {
		p.t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}

// TestOneRedis goes through an outage of Redis, and one of an instance.
func TestOneRedis(t *testing.T) {
	p := up(t, "DEMO_RATE=6", "DEMO_BURST=9", "DEMO_ON_FAILURE=closed")
	p.decides("redis")
	s := p.state()
	if s.Limit.Text != "token bucket of 9, 6 per 1s" || s.Settings.OnFailure != "closed" {
		t.Errorf("limit %q, on failure %s: not those of the environment", s.Limit.Text, s.Settings.OnFailure)
	}
	if names := []string{s.Instances[0].Name, s.Instances[1].Name, s.Instances[2].Name}; !slices.Equal(names, []string{"app-1", "app-2", "app-3"}) {
		t.Errorf("instances %q", names)
	}
	if s.Bound.Admitted == 0 {
		t.Error("nothing is admitted")
	}

	p.kill("redis")
	p.decides("closed")
	if got := p.status(); got != http.StatusServiceUnavailable {
		t.Errorf("while Redis is away: status %d, want 503", got)
	}
	p.put("/api/policy", `{"onFailure":"open"}`)
	p.decides("open")
	p.start("redis")
	p.decides("redis")

	p.put("/api/redis", `{"connected":false}`)
	p.decides("open")
	p.put("/api/redis", `{"connected":true}`)
	p.decides("redis")

	p.put("/api/limit", `{"algorithm":"gcra","rate":7,"per":"1s","burst":9}`)
	p.kill("app-2")
	eventually.True(t, soon, "the page tells that app-2 is down", func() bool { return !p.state().Instances[1].Up })
	if got := p.status(); got != http.StatusOK {
		t.Errorf("while an instance is down: status %d, want 200 from another", got)
	}
	p.start("app-2")
	// It begins with the limit of the environment, and has to enforce the one that was set since.
	eventually.True(t, soon, "app-2 takes part again", func() bool {
		i := p.state().Instances[1]
		return i.Up && i.Current && i.Sources["redis"] > 0
	})
	if s := p.state(); s.Settings.Rate != 7 || s.Limit.Text != "GCRA of 9, 7 per 1s" {
		t.Errorf("limit %q, want the one that was set", s.Limit.Text)
	}
}

// TestCluster uses all nodes of a Redis Cluster.
func TestCluster(t *testing.T) {
	p := up(t, "PROFILE=cluster")
	p.put("/api/load", `{"mode":"equal","clients":20,"rate":5,"burst":1}`)
	p.decides("redis")
	for _, node := range []string{"node-1", "node-2", "node-3"} {
		id := p.container(node)
		eventually.True(t, soon, "clients are counted on "+node, func() bool {
			out := p.run(t.Context(), "docker", "exec", id, "redis-cli", "--raw", "keys", "rl:demo:*")
			return strings.Contains(out, "rl:demo:")
		})
	}
}
