package main

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	os.Exit(m.Run())
}

// output can be read while the demo writes to it.
type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// await waits for something to be printed and returns its first group.
func (o *output) await(t *testing.T, pattern string) string {
	t.Helper()
	re := regexp.MustCompile(pattern)
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 500 {
		if m := re.FindStringSubmatch(o.String()); m != nil {
			return m[len(m)-1]
		}
		<-tick.C
	}
	t.Fatalf("%q was not printed:\n%s", pattern, o)
	return ""
}

// runs starts the demo on a free port and returns a function that waits for
// its exit code.
func runs(ctx context.Context, o *output, args ...string) (wait func() int) {
	code := make(chan int, 1)
	go func() { code <- run(ctx, append([]string{"-addr", "127.0.0.1:0"}, args...), o, o) }()
	return func() int { return <-code }
}

var lastLine = regexp.MustCompile(`\nadmitted (\d+) of at most (\d+)\n$`)

// holds checks the exit code and the last line.
func holds(t *testing.T, code int, o *output) {
	t.Helper()
	text := o.String()
	m := lastLine.FindStringSubmatch(text)
	if code != 0 || m == nil {
		t.Fatalf("exit code %d, last line %q:\n%s", code, m, text)
	}
	admitted, _ := strconv.Atoi(m[1])
	most, _ := strconv.Atoi(m[2])
	if admitted == 0 || admitted > most {
		t.Errorf("admitted %d of at most %d:\n%s", admitted, most, text)
	}
}

// section is the part of the output between two words.
func section(t *testing.T, o *output, from, to string) string {
	t.Helper()
	_, text, found := strings.Cut(o.String(), from)
	text, _, ended := strings.Cut(text, to)
	if !found || !ended {
		t.Fatalf("nothing between %q and %q:\n%s", from, to, o)
	}
	return text
}

// TestWhole runs the demo as a user does, with every policy and both
// algorithms, and against a server that is not its own.
func TestWhole(t *testing.T) {
	before := runtime.NumGoroutine()
	t.Run("demo", func(t *testing.T) {
		for _, test := range []struct{ policy, algorithm, effect string }{
			{"open", "bucket", `decided by open: (\d+), of which admitted [1-9]\d*, refused 0; to be admitted at most: no limit\n`},
			{"closed", "log", `decided by closed: (\d+), of which admitted 0, refused [1-9]\d*; to be admitted at most: 0\n(.*\n)*.* × 503`},
			{"local", "bucket", `decided by memory: (\d+), of which admitted [1-9]\d*, refused [1-9]\d*; to be admitted at most: [1-9]`},
		} {
			t.Run(test.policy+" "+test.algorithm, func(t *testing.T) {
				t.Parallel()
				o := &output{}
				code := runs(t.Context(), o, "-for", "8s", "-on-failure", test.policy, "-algorithm", test.algorithm)()
				holds(t, code, o)
				away := section(t, o, "Redis was away", "== Redis is back")
				if !regexp.MustCompile(test.effect).MatchString(away) {
					t.Errorf("%s is not in:\n%s", test.effect, away)
				}
				if back := section(t, o, "Decisions come from Redis again", "answers"); strings.Contains(back, "not yet") {
					t.Errorf("no recovery:\n%s", back)
				}
			})
		}
		t.Run("real server", testRealServer)
		t.Run("by hand", testByHand)
		t.Run("taken over", testTakenOver)
	})
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for range 200 {
		if runtime.NumGoroutine() <= before {
			return
		}
		<-tick.C
	}
	stacks := make([]byte, 1<<16)
	t.Errorf("goroutines: %d before, %d after\n%s", before, runtime.NumGoroutine(), stacks[:runtime.Stack(stacks, true)])
}

func testRealServer(t *testing.T) {
	t.Parallel()
	server := miniredis.NewMiniRedis()
	server.RequireAuth("hidden")
	if err := server.Start(); err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	o := &output{}
	holds(t, runs(t.Context(), o, "-for", "8s", "-algorithm", "log", "-redis", "redis://:hidden@"+server.Addr())(), o)
	for _, text := range []string{"the server is left alone", "decided by memory"} {
		if !strings.Contains(o.String(), text) {
			t.Errorf("no %q in:\n%s", text, o)
		}
	}
	if strings.Contains(o.String(), "hidden") {
		t.Errorf("the password is printed:\n%s", o)
	}
}

// testByHand does what the printed curl line does, then interrupts.
func testByHand(t *testing.T) {
	t.Parallel()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	o := &output{}
	wait := runs(ctx, o, "-rate", "1", "-per", "1h", "-burst", "3", "-timeout", "10s")
	url := o.await(t, `curl -i (http://\S+)`)
	o.await(t, `(decided by)`)
	http := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	seen := map[string]bool{}
	for i := range 4 {
		response := get(t, http, url, fmt.Sprintf("198.51.100.%d", i))
		seen[response.Header.Get("X-Instance")] = true
		if want := []int{200, 200, 200, 429}[i]; response.StatusCode != want {
			t.Errorf("request %d: status %d, want %d", i, response.StatusCode, want)
		}
		if left := fmt.Sprintf(`"demo";r=%d;`, max(2-i, 0)); !strings.HasPrefix(response.Header.Get("RateLimit"), left) {
			t.Errorf("request %d: headers %v, want RateLimit %s", i, response.Header, left)
		}
	}
	if len(seen) < 2 || seen[""] {
		t.Errorf("instances %v, want several", seen)
	}
	interrupt()
	holds(t, wait(), o)
	if !strings.Contains(o.String(), "by hand  127.0.0.1") {
		t.Errorf("the request by hand is not in the table:\n%s", o)
	}
}

// testTakenOver changes the limit in the middle of the script, which then does
// nothing more by itself; the sum holds for both limits.
func testTakenOver(t *testing.T) {
	t.Parallel()
	o := &output{}
	wait := runs(t.Context(), o, "-for", "5s", "-timeout", "10s")
	url := o.await(t, `page +(http://\S+)`)
	o.await(t, `\d\.\ds .*(redis \d)`)
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPut, url+"api/limit", strings.NewReader(`{"algorithm":"window","rate":3,"per":"1s"}`))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/json")
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		t.Errorf("status %d, want 204", response.StatusCode)
	}
	holds(t, wait(), o)
	if text := o.String(); !strings.Contains(text, "changed by hand") || strings.Contains(text, "Redis is cut off ==") {
		t.Errorf("the script goes on:\n%s", text)
	}
}

// get claims to come from another address.
func get(t *testing.T, client *http.Client, url, claimed string) *http.Response {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("X-Forwarded-For", claimed)
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	_ = response.Body.Close()
	return response
}

func TestPortTaken(t *testing.T) {
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	o := &output{}
	wait := runs(ctx, o, "-addr", taken.Addr().String())
	o.await(t, `(not on `+taken.Addr().String()+`)`)
	o.await(t, `\d\.\ds .*(redis \d)`)
	interrupt()
	holds(t, wait(), o)
}
