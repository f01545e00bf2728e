package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// An api is what a Transport sends to: it answers in order, the last answer
// for ever, and notes when it was asked for what.
type api struct {
	mu      sync.Mutex
	answers []*http.Response
	start   time.Time
	asked   []string     // seconds since start, method, host, body
	closed  atomic.Int64 // bodies of answers
}

func newAPI(answers ...*http.Response) *api { return &api{answers: answers, start: time.Now()} }

// says is an answer; headers are pairs.
func says(status int, headers ...string) *http.Response {
	resp := &http.Response{StatusCode: status, Header: http.Header{}, Body: http.NoBody}
	for i := 0; i < len(headers); i += 2 {
		resp.Header.Set(headers[i], headers[i+1])
	}
	return resp
}

type countingBody struct {
	io.Reader
	closed *atomic.Int64
}

func (b countingBody) Close() error { b.closed.Add(1); return nil }

func (a *api) RoundTrip(r *http.Request) (*http.Response, error) {
	body := ""
	if r.Body != nil {
		b, _ := io.ReadAll(r.Body)
		r.Body.Close()
		body = string(b)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked = append(a.asked, strings.TrimSpace(fmt.Sprintf("%v %s %s %s", time.Since(a.start).Seconds(), r.Method, r.URL.Host, body)))
	resp := *a.answers[0]
	if len(a.answers) > 1 {
		a.answers = a.answers[1:]
	}
	resp.Body = countingBody{strings.NewReader("slow down"), &a.closed}
	return &resp, nil
}

func (a *api) check(t *testing.T, want ...string) {
	t.Helper()
	if got := strings.Join(a.asked, "\n"); got != strings.Join(want, "\n") {
		t.Errorf("asked\n%s\nwant\n%s", got, strings.Join(want, "\n"))
	}
}

// ask sends a request and returns its status, or 0 and the error.
func ask(ctx context.Context, t *middleware.Transport, method, url, body string) (int, error) {
	var reader io.Reader
	if body != "" {
		reader = strings.NewReader(body)
	}
	r, err := http.NewRequestWithContext(ctx, method, url, reader)
	if err != nil {
		return 0, err
	}
	resp, err := t.RoundTrip(r)
	if err != nil {
		return 0, err
	}
	return resp.StatusCode, resp.Body.Close()
}

// One request a second and host: the others wait.
func TestTransportWaitsForTheLimiter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, err := redislimiter.NewMemory("out", redislimiter.TokenBucket(1, time.Second, 1))
		if err != nil {
			t.Fatal(err)
		}
		a := newAPI(says(200))
		tr := &middleware.Transport{Base: a, Limiter: l}
		for _, url := range []string{"http://a.test/", "http://A.test:80/x", "http://b.test/", "http://a.test:8080/", "http://a.test./", "http://[::1]:8080/", "http://[::1:8080]/"} {
			if status, err := ask(t.Context(), tr, "GET", url, ""); status != 200 {
				t.Errorf("%s: %v", url, err)
			}
		}
		a.check(t, "0 GET a.test", "1 GET A.test:80", "1 GET b.test", "1 GET a.test:8080", "2 GET a.test.", "2 GET [::1]:8080", "2 GET [::1:8080]")
	})
}

// What a host says in Retry-After holds for the requests to it, in either form.
func TestTransportHonoursRetryAfter(t *testing.T) {
	date := func(d time.Duration) string { return time.Now().Add(d).UTC().Format(http.TimeFormat) }
	for _, test := range []struct {
		name   string
		status int
		retry  func() string
		next   string // when the next request to the host is sent
	}{
		{"429", 429, func() string { return "7" }, "7"},
		{"503", 503, func() string { return "7" }, "7"},
		{"a date", 429, func() string { return date(9 * time.Second) }, "9"},
		{"a date gone by", 429, func() string { return date(-time.Hour) }, "0"},
		{"none", 429, func() string { return "" }, "0"},
		{"nonsense", 429, func() string { return "soon" }, "0"},
		{"a negative number", 429, func() string { return "-5" }, "0"},
		{"another status", 301, func() string { return "7" }, "0"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(says(test.status, "Retry-After", test.retry()), says(200))
				tr := &middleware.Transport{Base: a}
				for _, url := range []string{"http://a.test/", "http://b.test/", "http://a.test/"} {
					if _, err := ask(t.Context(), tr, "POST", url, "x"); err != nil {
						t.Errorf("%s: %v", url, err)
					}
				}
				a.check(t, "0 POST a.test x", "0 POST b.test x", test.next+" POST a.test x")
			})
		})
	}
}

type roundTripFunc func(*http.Request) (*http.Response, error)

func (f roundTripFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// Answers to requests that were under way together lengthen the pause, also for
// those that wait already, and never shorten it.
func TestTransportLongestPauseWins(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent []string
		start := time.Now()
		tr := &middleware.Transport{Base: roundTripFunc(func(r *http.Request) (*http.Response, error) {
			if r.URL.Path == "/last" {
				sent = append(sent, time.Since(start).String())
				return says(200), nil
			}
			var takes, retry int
			fmt.Sscanf(r.URL.Path, "/%d/%d", &takes, &retry)
			time.Sleep(time.Duration(takes) * time.Second)
			return says(429, "Retry-After", fmt.Sprint(retry)), nil
		})}
		var all sync.WaitGroup
		for _, path := range []string{"/1/5", "/2/9", "/3/1"} { // until 6, 11 and 4
			all.Go(func() { ask(t.Context(), tr, "GET", "http://a.test"+path, "") })
		}
		time.Sleep(1500 * time.Millisecond)
		all.Go(func() { ask(t.Context(), tr, "GET", "http://a.test/last", "") })
		all.Wait()
		if len(sent) != 1 || sent[0] != "11s" {
			t.Errorf("sent after %q, want 11s", sent)
		}
	})
}

// A request that would be held too long is not held at all.
func TestTransportGivesUpAtOnce(t *testing.T) {
	for _, test := range []struct {
		name    string
		limited bool // to one request an hour
		retry   string
		maxWait time.Duration
		timeout time.Duration // of the caller
		want    error
	}{
		{"MaxWait, by Retry-After", false, "30", 20 * time.Second, time.Hour, middleware.ErrWait},
		{"the default MaxWait", false, "61", 0, time.Hour, middleware.ErrWait},
		{"a host that says for ever", false, "9999999999999999999", 0, time.Hour, middleware.ErrWait},
		{"MaxWait, by the limiter", true, "", time.Minute, 2 * time.Hour, middleware.ErrWait},
		{"a longer deadline", false, "30", 20 * time.Second, time.Minute, middleware.ErrWait},
		{"a shorter deadline", false, "30", 20 * time.Second, time.Second, context.DeadlineExceeded},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(says(429, "Retry-After", test.retry))
				tr := &middleware.Transport{Base: a, MaxWait: test.maxWait}
				if test.limited {
					tr.Limiter = memory(t, "out", 1)
				}
				ask(t.Context(), tr, "GET", "http://a.test/", "")
				ctx, cancel := context.WithTimeout(t.Context(), test.timeout)
				defer cancel()
				start, asked := time.Now(), len(a.asked)
				status, err := ask(ctx, tr, "GET", "http://a.test/", "")
				if !errors.Is(err, test.want) || time.Since(start) != 0 || len(a.asked) != asked {
					t.Errorf("status %d, error %v after %v, want %v at once", status, err, time.Since(start), test.want)
				}
			})
		})
	}
}

// Whoever cancels stops waiting.
func TestTransportCancelled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(says(429, "Retry-After", "30"))
		tr := &middleware.Transport{Base: a}
		ask(t.Context(), tr, "GET", "http://a.test/", "")
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		if _, err := ask(ctx, tr, "GET", "http://a.test/", ""); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
		a.check(t, "0 GET a.test")
	})
}

func TestTransportRetries(t *testing.T) {
	busy, down, ok := says(429, "Retry-After", "2"), says(503, "Retry-After", "2"), says(200)
	for _, test := range []struct {
		name    string
		retries int
		method  string
		body    string
		answers []*http.Response
		status  int
		want    []string
	}{
		{"none asked for", 0, "GET", "", []*http.Response{busy, ok}, 429, []string{"0 GET a.test"}},
		{"once", 1, "GET", "", []*http.Response{busy, ok}, 200, []string{"0 GET a.test", "2 GET a.test"}},
		{"not often enough", 1, "GET", "", []*http.Response{busy}, 429, []string{"0 GET a.test", "2 GET a.test"}},
		{"with its body", 2, "POST", "x", []*http.Response{busy, busy, ok}, 200, []string{"0 POST a.test x", "2 POST a.test x", "4 POST a.test x"}},
		{"503, idempotent", 1, "PUT", "x", []*http.Response{down, ok}, 200, []string{"0 PUT a.test x", "2 PUT a.test x"}},
		{"503, it may have begun", 1, "POST", "x", []*http.Response{down, ok}, 503, []string{"0 POST a.test x"}},
		{"too long to wait", 1, "GET", "", []*http.Response{says(429, "Retry-After", "61"), ok}, 429, []string{"0 GET a.test"}},
		{"no Retry-After", 1, "GET", "", []*http.Response{says(429), ok}, 429, []string{"0 GET a.test"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a := newAPI(test.answers...)
				tr := &middleware.Transport{Base: a, Retries: test.retries}
				if status, err := ask(t.Context(), tr, test.method, "http://a.test/", test.body); status != test.status || err != nil {
					t.Errorf("status %d, %v, want %d", status, err, test.status)
				}
				a.check(t, test.want...)
				if int(a.closed.Load()) != len(a.asked) {
					t.Errorf("%d of %d answers closed", a.closed.Load(), len(a.asked))
				}
			})
		})
	}
}

// Where the limiter does not let a request be sent again, the API's last answer is the one; not where its caller has left.
func TestTransportReturnsTheLastAnswer(t *testing.T) {
	for name, left := range map[string]bool{"the limiter refuses": false, "the caller leaves": true} {
		synctest.Test(t, func(t *testing.T) {
			a := newAPI(says(429, "Retry-After", "2"), says(200))
			tr := &middleware.Transport{Base: a, Retries: 1, Limiter: memory(t, "out", 1)}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			if left {
				time.AfterFunc(time.Second, cancel)
			}
			status, err := ask(ctx, tr, "PUT", "http://a.test/", "x")
			if !left && (status != 429 || err != nil) || left && !errors.Is(err, context.Canceled) {
				t.Errorf("%s: status %d, %v", name, status, err)
			}
			a.check(t, "0 PUT a.test x")
			if a.closed.Load() != 1 {
				t.Errorf("%s: %d answers closed", name, a.closed.Load())
			}
		})
	}
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// An answer that goes on for ever is not read before a request is sent again.
func TestTransportLeavesLongAnswers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		reader, writer := io.Pipe()
		defer writer.Close()
		busy := says(429, "Retry-After", "2")
		busy.Body, busy.ContentLength = reader, -1
		first := true
		tr := &middleware.Transport{Retries: 1, Base: roundTripper(func(*http.Request) (*http.Response, error) {
			if first {
				first = false
				return busy, nil
			}
			return says(200), nil
		})}
		if status, err := ask(t.Context(), tr, "GET", "http://a.test/", ""); status != 200 || err != nil {
			t.Errorf("status %d, %v", status, err)
		}
	})
}

// A body that cannot be had again is not sent again.
func TestTransportDoesNotRepeatStreams(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(says(429, "Retry-After", "2"), says(200))
		tr := &middleware.Transport{Base: a, Retries: 1}
		r, _ := http.NewRequestWithContext(t.Context(), "POST", "http://a.test/", io.MultiReader(strings.NewReader("stream")))
		resp, err := tr.RoundTrip(r)
		if err != nil || resp.StatusCode != 429 {
			t.Errorf("%v, %v", resp, err)
		}
		a.check(t, "0 POST a.test stream")
	})
}

func TestTransportErrors(t *testing.T) {
	broken := errors.New("broken")
	key := func(err error) middleware.KeyFunc { return fixed("", err) }
	for _, test := range []struct {
		name string
		tr   *middleware.Transport
		url  string
		want string
		sent bool
	}{
		{"no decision", &middleware.Transport{Limiter: answer(redislimiter.Result{}, redislimiter.ErrUnavailable)}, "http://a.test/", "no decision", false},
		{"the key function", &middleware.Transport{Key: key(broken)}, "http://a.test/", "broken", false},
		{"an empty key", &middleware.Transport{Key: key(nil)}, "http://a.test/", "empty key", false},
		{"skip", &middleware.Transport{Key: key(middleware.Skip), Limiter: answer(redislimiter.Result{}, broken)}, "http://a.test/", "", true},
		{"no host", &middleware.Transport{}, "http:/path", "no host", false},
		{"MaxWait", &middleware.Transport{MaxWait: -1}, "http://a.test/", "MaxWait is -1ns", false},
		{"Retries", &middleware.Transport{Retries: -1}, "http://a.test/", "Retries is -1", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			a, closed := newAPI(says(200)), new(atomic.Int64)
			test.tr.Base = a
			r, _ := http.NewRequestWithContext(t.Context(), "POST", test.url, countingBody{strings.NewReader("x"), closed})
			_, err := test.tr.RoundTrip(r)
			if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
				t.Errorf("error %v, want %q", err, test.want)
			}
			if closed.Load() != 1 || (len(a.asked) == 1) != test.sent {
				t.Errorf("body closed %d times, asked %q", closed.Load(), a.asked)
			}
		})
	}
}

// A client of very many hosts does not remember all that were busy.
func TestTransportIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAPI(says(429, "Retry-After", "50"))
		tr := &middleware.Transport{Base: a}
		for i := range 3000 {
			ask(t.Context(), tr, "GET", fmt.Sprintf("http://h%d.test/", i), "")
		}
		last := "http://h2999.test/"
		start := time.Now()
		if ask(t.Context(), tr, "GET", last, ""); time.Since(start) != 50*time.Second {
			t.Errorf("the last host was forgotten: waited %v", time.Since(start))
		}
	})
}

type idler struct {
	http.RoundTripper
	closed int
}

func (i *idler) CloseIdleConnections() { i.closed++ }

// A Client that has a Transport closes the idle connections of what is behind it.
func TestTransportPassesOnCloseIdleConnections(t *testing.T) {
	base := &idler{RoundTripper: http.DefaultTransport}
	(&http.Client{Transport: &middleware.Transport{Base: base}}).CloseIdleConnections()
	if base.closed != 1 {
		t.Errorf("passed on %d times", base.closed)
	}
}
