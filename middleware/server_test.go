package middleware_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/redislimiter/go-redislimiter/middleware"
)

// On the wire there are the headers that are documented, once each, and no
// other: what limiters note for each other is not sent.
func TestOnTheWire(t *testing.T) {
	mount := func(name string, limit int) func(http.Handler) http.Handler {
		return middleware.New(memory(t, name, limit), middleware.ByIP(nil), nil)
	}
	server := httptest.NewServer(mount("outer", 9)(mount("inner", 2)(new(reached))))
	defer server.Close()
	for i, want := range []string{
		`200 Content-Length:2 Content-Type:text/plain; charset=utf-8 Ratelimit-Policy:"inner";q=2;w=3600 Ratelimit:"inner";r=1;t=`,
		`200 Content-Length:2 Content-Type:text/plain; charset=utf-8 Ratelimit-Policy:"inner";q=2;w=3600 Ratelimit:"inner";r=0;t=`,
		`429 Content-Length: Content-Type:application/problem+json Ratelimit-Policy:"inner";q=2;w=3600 Ratelimit:"inner";r=0;t= Retry-After: X-Content-Type-Options:nosniff`,
	} {
		if got := rawGet(t, server.Listener.Addr().String()); got != want {
			t.Errorf("answer %d\n got %s\nwant %s", i, got, want)
		}
	}
}

// rawGet reads an answer byte by byte, and leaves out what changes.
func rawGet(t *testing.T, address string) string {
	t.Helper()
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "GET / HTTP/1.1\r\nHost: test\r\nConnection: close\r\n\r\n")
	lines := bufio.NewScanner(conn)
	lines.Scan()
	status := strings.Fields(lines.Text())[1]
	var headers []string
	for lines.Scan() && lines.Text() != "" {
		name, value, _ := strings.Cut(lines.Text(), ": ")
		switch {
		case name == "Date" || name == "Connection":
			continue
		case name == "Ratelimit":
			value = strings.TrimRight(value, "0123456789")
		case status != "200" && (name == "Content-Length" || name == "Retry-After"):
			value = ""
		}
		headers = append(headers, name+":"+value)
	}
	return status + " " + strings.Join(sorted(headers), " ")
}

// Fifty streams of one HTTP/2 connection that are let go together, and a limit
// of one: exactly one is admitted.
func TestHTTP2Streams(t *testing.T) {
	const streams = 50
	var handled atomic.Int64
	server := httptest.NewUnstartedServer(middleware.New(memory(t, "api", 1), middleware.ByIP(nil), nil)(
		http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			handled.Add(1)
			if r.ProtoMajor != 2 {
				t.Errorf("the request came by %s", r.Proto)
			}
		})))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	client := server.Client()

	start := make(chan struct{})
	var admitted, refused atomic.Int64
	var all sync.WaitGroup
	for range streams {
		all.Go(func() {
			<-start
			resp, err := client.Get(server.URL)
			if err != nil {
				t.Error(err)
				return
			}
			defer resp.Body.Close()
			io.Copy(io.Discard, resp.Body)
			switch resp.StatusCode {
			case 200:
				admitted.Add(1)
			case 429:
				refused.Add(1)
			}
			for name := range resp.Header {
				if strings.HasPrefix(name, "Redislimiter") {
					t.Errorf("%s was sent", name)
				}
			}
		})
	}
	close(start)
	all.Wait()
	if admitted.Load() != 1 || refused.Load() != streams-1 || handled.Load() != 1 {
		t.Errorf("%d admitted, %d refused, %d handled", admitted.Load(), refused.Load(), handled.Load())
	}
}
