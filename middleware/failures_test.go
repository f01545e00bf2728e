package middleware_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// failed counts every answer of 400 and above.
func failed(status int) bool { return status >= 400 }

// What an answer costs that counts only if it is a failure.
func TestOnlyFailures(t *testing.T) {
	status := func(code int) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
	}
	tests := []struct {
		name    string
		handler http.HandlerFunc
		gone    bool // the client leaves while the handler runs
		charged int
	}{
		{"200", status(200), false, 0},
		{"401", status(401), false, 1},
		{"500", status(500), false, 1},
		{"a redirect", status(303), false, 0},
		{"nothing is written", func(http.ResponseWriter, *http.Request) {}, false, 0},
		{"a body alone", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "ok") }, false, 0},
		{"a flush alone, then a failure that comes too late", func(w http.ResponseWriter, _ *http.Request) {
			w.(http.Flusher).Flush()
			w.WriteHeader(500)
		}, false, 0},
		{"the same through a ResponseController", func(w http.ResponseWriter, _ *http.Request) {
			http.NewResponseController(w).Flush()
			w.WriteHeader(500)
		}, false, 0},
		{"early hints are no answer", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(103)
			w.WriteHeader(401)
		}, false, 1},
		{"the first status counts", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(401)
			w.WriteHeader(200)
		}, false, 1},
		{"a panic", func(http.ResponseWriter, *http.Request) { panic("handler") }, false, 1},
		{"a panic after a good beginning", func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(200)
			panic(http.ErrAbortHandler)
		}, false, 1},
		{"the client leaves before an answer", func(http.ResponseWriter, *http.Request) {}, true, 1},
		{"the client leaves, and was right", status(200), true, 0},
		{"the client leaves, and was wrong", status(401), true, 1},
	}
	_, rdb := limitertest.Redis(t)
	redis, err := redislimiter.New(rdb, "login", redislimiter.TokenBucket(1, 1e12, 10))
	if err != nil {
		t.Fatal(err)
	}
	redis.Timeout = time.Minute // this is not about time, and the machine may be busy
	mem, err := redislimiter.NewMemory("login", redislimiter.TokenBucket(1, 1e12, 10))
	if err != nil {
		t.Fatal(err)
	}
	for kind, l := range map[string]redislimiter.Allower{"Memory": mem, "Limiter": redis, "Fallback": &redislimiter.Fallback{Primary: redis, Secondary: redislimiter.Closed}} {
		for _, test := range tests {
			t.Run(kind+"/"+test.name, func(t *testing.T) {
				key := kind + test.name
				ctx, leave := context.WithCancel(context.Background())
				defer leave()
				h := middleware.New(l, middleware.Const(key), &middleware.Options{OnlyFailures: failed})(
					http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
						if look, err := l.AllowN(context.Background(), key, 0); err != nil || look.Remaining != 9 {
							t.Errorf("not charged up front: %d left, %v", look.Remaining, err)
						}
						if test.gone {
							leave()
						}
						test.handler(w, r)
					}))
				func() {
					defer func() { recover() }()
					serve(h, from("203.0.113.9:1").WithContext(ctx))
				}()
				look, err := l.AllowN(context.Background(), key, 0)
				if charged := 10 - look.Remaining; err != nil || charged != test.charged {
					t.Errorf("charged %d, want %d (%v)", charged, test.charged, err)
				}
			})
		}
	}
}

// Five wrong passwords, and the sixth attempt is refused, right or wrong; right
// ones before cost nothing. What is refused is not charged either.
func TestOnlyFailuresRefuse(t *testing.T) {
	l := memory(t, "login", 5)
	h := middleware.New(l, middleware.ByIP(nil), &middleware.Options{OnlyFailures: failed})(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Header.Get("Password") != "right" {
				w.WriteHeader(401)
			}
		}))
	want := []int{200, 401, 200, 401, 401, 200, 401, 401, 429, 429}
	for i, password := range strings.Fields("right wrong right wrong wrong right wrong wrong right wrong") {
		if resp := serve(h, from("203.0.113.9:1", "Password", password)); resp.StatusCode != want[i] {
			t.Errorf("attempt %d: %d, want %d", i, resp.StatusCode, want[i])
		}
	}
}

// Attempts that run at the same time cannot all be let in before the first fails.
func TestOnlyFailuresTogether(t *testing.T) {
	const limit, attempts = 5, 50
	l := memory(t, "login", limit)
	inside := make(chan struct{})
	let := make(chan struct{})
	h := middleware.New(l, middleware.Const("k"), &middleware.Options{OnlyFailures: failed})(
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			inside <- struct{}{}
			<-let
			w.WriteHeader(401)
		}))
	answers := make(chan int)
	for range attempts {
		go func() { answers <- serve(h, from("203.0.113.9:1")).StatusCode }()
	}
	for range limit {
		<-inside
	}
	for range attempts - limit {
		if status := <-answers; status != 429 {
			t.Errorf("status %d while %d are inside", status, limit)
		}
	}
	close(let)
	for range limit {
		if status := <-answers; status != 401 {
			t.Errorf("status %d", status)
		}
	}
}

// Mounted twice, the limiter still gives back only what it has taken.
func TestOnlyFailuresMountedTwice(t *testing.T) {
	l := memory(t, "login", 9)
	mount := middleware.New(l, middleware.Const("k"), &middleware.Options{OnlyFailures: failed})
	costs := middleware.New(l, middleware.Const("k"), &middleware.Options{OnlyFailures: failed, Cost: func(*http.Request) int { return 3 }})
	left := func() int {
		look, _ := l.AllowN(context.Background(), "k", 0)
		return look.Remaining
	}
	var inside int
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		inside = left()
		w.WriteHeader(int(r.ContentLength))
	})
	for _, test := range []struct {
		status, inside, after int
	}{{200, 6, 9}, {401, 6, 6}} {
		r := from("203.0.113.9:1")
		r.ContentLength = int64(test.status)
		serve(mount(costs(mount(h))), r)
		if inside != test.inside || left() != test.after {
			t.Errorf("%d: %d left inside, %d after, want %d and %d", test.status, inside, left(), test.inside, test.after)
		}
	}
}

// What cannot be given back is logged, once, and stays charged.
func TestRefundFails(t *testing.T) {
	log := logged(t)
	_, rdb := limitertest.Redis(t)
	l, err := redislimiter.New(rdb, "login", redislimiter.TokenBucket(1, 1e12, 10))
	if err != nil {
		t.Fatal(err)
	}
	l.Timeout = 10 * time.Second // for a machine that is busy
	m := middleware.New(l, middleware.Const("k"), &middleware.Options{OnlyFailures: failed})
	h := m(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { rdb.Close() }))
	serve(h, from("203.0.113.9:1"))
	serve(m(new(reached)), from("203.0.113.9:1"))
	if strings.Count(log.String(), "units could not be given back") != 1 {
		t.Errorf("logged %q", log)
	}
}

// A wrapped ResponseWriter can do what it could before, on a real server.
func TestOnlyFailuresKeepsInterfaces(t *testing.T) {
	l := memory(t, "login", 2)
	m := middleware.New(l, middleware.Const("k"), &middleware.Options{OnlyFailures: failed})
	mux := http.NewServeMux()
	mux.Handle("/flush", m(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, flusher := w.(http.Flusher)
		_, readerFrom := w.(io.ReaderFrom)
		if err := http.NewResponseController(w).Flush(); err != nil || !flusher || !readerFrom {
			t.Errorf("Flusher %v, ReaderFrom %v, %v", flusher, readerFrom, err)
		}
		if err := http.NewResponseController(w).EnableFullDuplex(); err != nil {
			t.Error(err)
		}
		io.Copy(w, strings.NewReader("ok"))
	})))
	mux.Handle("/hijack", m(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		conn, buffered, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		io.WriteString(buffered, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: test\r\n\r\n")
		buffered.Flush()
		conn.Close()
	})))
	finished := make(chan struct{}, 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mux.ServeHTTP(w, r)
		finished <- struct{}{} // what is given back is given back after the answer
	}))
	defer server.Close()
	for _, path := range []string{"/flush", "/hijack", "/flush", "/hijack"} { // successes, so none is counted
		resp, err := server.Client().Get(server.URL + path)
		if err != nil {
			t.Fatal(path, err)
		}
		if body, _ := io.ReadAll(resp.Body); resp.StatusCode > 200 || path == "/flush" && string(body) != "ok" {
			t.Errorf("%s: %d %q", path, resp.StatusCode, body)
		}
		resp.Body.Close()
		<-finished
	}
	// One that fails to be taken over has not been answered.
	h := m(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if _, _, err := http.NewResponseController(w).Hijack(); err == nil {
			t.Error("hijacked")
		}
		w.WriteHeader(400)
	}))
	h.ServeHTTP(&hijackFails{httptest.NewRecorder()}, from("203.0.113.9:1"))
	if look, _ := l.AllowN(context.Background(), "k", 0); look.Remaining != 1 {
		t.Errorf("%d left, want 1", look.Remaining)
	}
}

type hijackFails struct{ *httptest.ResponseRecorder }

func (*hijackFails) Hijack() (net.Conn, *bufio.ReadWriter, error) { return nil, nil, errors.New("no") }
