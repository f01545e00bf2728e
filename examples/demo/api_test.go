package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// cockpitFor serves an instance and a cockpit that looks at it, without a
// terminal's show, as the roles do.
func cockpitFor(t *testing.T) (*cockpit, *instance, http.Handler) {
	t.Helper()
	b := &backend{}
	if err := b.start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.close)
	s := settings{Algorithm: "bucket", Rate: 1, Per: span(time.Hour), Burst: 5, OnFailure: "closed", Connected: true, Instances: 1}
	i, err := newInstance(instanceConfig{name: "app-1", addr: "127.0.0.1:0", trusted: []string{"127.0.0.1/32"}, timeout: 5 * time.Second, settings: s}, b)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := i.stop(); err != nil {
			t.Error(err)
		}
	})
	n, err := parseNode("http://" + i.addr)
	if err != nil {
		t.Fatal(err)
	}
	limit, err := s.limit()
	if err != nil {
		t.Fatal(err)
	}
	w := newWire()
	l := newLoad(w, newTally(), limit)
	c := newCockpit([]*node{n}, l, s, "embedded")
	t.Cleanup(func() {
		c.hangUp()
		l.stop()
		c.stop()
	})
	return c, i, c.routes(http.NotFoundHandler())
}

func call(h http.Handler, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

func TestWrongRequests(t *testing.T) {
	c, _, h := cockpitFor(t)
	before := c.settings()
	for _, test := range []struct {
		method, path, body string
		status             int
		says               string
	}{
		{"PUT", "/api/limit", `{"algorithm":"bucket","rate":0,"per":"1s","burst":1}`, 400, "rate: 0"},
		{"PUT", "/api/limit", `{"algorithm":"bucket","rate":1,"per":"1s"}`, 400, "burst: 0"},
		{"PUT", "/api/limit", `{"algorithm":"bucket","rate":1,"per":"soon","burst":1}`, 400, "soon"},
		{"PUT", "/api/limit", `{"algorithm":"bucket","rate":1,"per":"-1s","burst":1}`, 400, "per: -1s"},
		{"PUT", "/api/limit", `{"algorithm":"leaky","rate":1,"per":"1m","burst":9}`, 400, "burst: a queue of 9"},
		{"PUT", "/api/limit", `{"algorithm":"abacus","rate":1,"per":"1s"}`, 400, "algorithm"},
		{"PUT", "/api/limit", `{"algorithm":"log","rate":9007199254740993,"per":"1s"}`, 400, "rate"},
		{"PUT", "/api/limit", `{"rates":1}`, 400, "rates"},
		{"PUT", "/api/limit", `{} {}`, 400, "goes on"},
		{"PUT", "/api/limit", `[`, 400, "body"},
		{"PUT", "/api/limit", "", 415, "application/json"},
		{"PUT", "/api/limit", `{"algorithm":"` + strings.Repeat("x", maxBody) + `"}`, 413, "longer"},
		{"PUT", "/api/policy", `{"onFailure":"panic"}`, 400, "on-failure"},
		{"PUT", "/api/redis", `{}`, 400, "connected: missing"},
		{"PUT", "/api/cache", `{}`, 400, "cacheDenials: missing"},
		{"PUT", "/api/load", `{"mode":"wild"}`, 400, "mode"},
		{"PUT", "/api/load", `{"mode":"equal","clients":0,"rate":1,"burst":1}`, 400, "clients: 0"},
		{"PUT", "/api/load", `{"mode":"equal","clients":1,"rate":1e9,"burst":1}`, 400, "rate"},
		{"PUT", "/api/load", `{"mode":"equal","clients":1,"rate":1,"burst":-1}`, 400, "burst: -1"},
		{"PUT", "/api/load", `{"mode":"equal","clients":20,"rate":100,"burst":1}`, 400, "2000"},
		{"POST", "/api/trials", `{"scenario":"war"}`, 400, "scenario"},
		{"GET", "/api/limit", "", 404, ""},
		{"DELETE", "/api/limit", "", 405, ""},
		{"GET", "/-/stats", "", 404, ""},
	} {
		w := call(h, test.method, test.path, test.body)
		if w.Code != test.status || !strings.Contains(w.Body.String(), test.says) {
			t.Errorf("%s %s %.80s: %d %s, want %d and %q", test.method, test.path, test.body, w.Code, w.Body, test.status, test.says)
		}
		if test.says != "" && !json.Valid(w.Body.Bytes()) {
			t.Errorf("%s %s: the error is no JSON: %s", test.method, test.path, w.Body)
		}
	}
	if after := c.settings(); after != before {
		t.Errorf("wrong requests changed %+v to %+v", before, after)
	}
}

// Another site's page cannot work the controls, nor those of an instance.
func TestOtherSites(t *testing.T) {
	_, i, h := cockpitFor(t)
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://example.net"}} {
		if w := call(h, "PUT", "/api/redis", `{"connected":false}`, header...); w.Code != http.StatusForbidden {
			t.Errorf("%v: status %d, want 403", header, w.Code)
		}
		if w := call(i.http.Handler, "PUT", "/-/settings", `{}`, header...); w.Code != http.StatusForbidden {
			t.Errorf("instance, %v: status %d, want 403", header, w.Code)
		}
	}
}

func TestPage(t *testing.T) {
	_, _, h := cockpitFor(t)
	for path, kind := range map[string]string{
		"/": "text/html", "/app.js": "javascript", "/charts.js": "javascript", "/theme.js": "javascript", "/style.css": "text/css", "/icon.svg": "image/svg+xml",
	} {
		w := call(h, "GET", path, "")
		if w.Code != 200 || !strings.Contains(w.Header().Get("Content-Type"), kind) {
			t.Errorf("%s: %d, %s", path, w.Code, w.Header().Get("Content-Type"))
		}
		if !strings.Contains(w.Header().Get("Content-Security-Policy"), "default-src 'none'") {
			t.Errorf("%s: no policy: %v", path, w.Header())
		}
		if strings.Contains(w.Body.String(), "https://") {
			t.Errorf("%s names something elsewhere", path)
		}
	}
}

// A change reaches the instance before the answer, and is in the state; an
// instance that has forgotten it gets it again.
func TestChanges(t *testing.T) {
	c, i, h := cockpitFor(t)
	if w := call(h, "GET", "/api/state", ""); w.Code != http.StatusServiceUnavailable {
		t.Errorf("before the first look: status %d, want 503", w.Code)
	}
	for path, body := range map[string]string{
		"/api/limit":  `{"algorithm":"window","rate":3,"per":"1h"}`,
		"/api/policy": `{"onFailure":"open"}`,
		"/api/redis":  `{"connected":false}`,
		"/api/cache":  `{"cacheDenials":true}`,
	} {
		if w := call(h, "PUT", path, body); w.Code != http.StatusNoContent {
			t.Fatalf("%s: %d %s", path, w.Code, w.Body)
		}
	}
	want := settings{Algorithm: "window", Rate: 3, Per: span(time.Hour), Burst: 5, OnFailure: "open", CacheDenials: true, Instances: 1}
	if got := i.settings(); got != want {
		t.Errorf("instance: %+v, want %+v", got, want)
	}
	server := call(i.http.Handler, "GET", "/hello", "")
	if server.Code != 200 || server.Header().Get("X-RateLimit-Fallback") != "open" {
		t.Errorf("while Redis is cut: %d, %v", server.Code, server.Header())
	}
	forgotten := want
	forgotten.Rate = 99
	if err := i.apply(forgotten); err != nil {
		t.Fatal(err)
	}
	c.look(t.Context())
	if got := i.settings(); got != want {
		t.Errorf("after a look: %+v, want %+v", got, want)
	}
	if err := c.connect(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	for n := range 4 {
		w := call(i.http.Handler, "GET", "/hello", "")
		if want := []int{200, 200, 200, 429}[n]; w.Code != want || w.Header().Get("X-RateLimit-Fallback") != "" {
			t.Errorf("request %d: %d, want %d: %v", n, w.Code, want, w.Header())
		}
	}
	c.look(t.Context())
	var f frame
	w := call(h, "GET", "/api/state", "")
	if err := json.Unmarshal(w.Body.Bytes(), &f); err != nil {
		t.Fatal(err)
	}
	if f.Settings != c.settings() || len(f.Instances) != 1 || !f.Instances[0].Up || f.Bound.Admitted != 3 || f.Bound.Broken {
		t.Errorf("state: %s", w.Body)
	}
}

// The page is told of an instance that is gone, and the others go on.
func TestInstanceGone(t *testing.T) {
	c, i, _ := cockpitFor(t)
	c.look(t.Context())
	if err := i.http.Close(); err != nil {
		t.Fatal(err)
	}
	if err := c.connect(t.Context(), false); err != nil {
		t.Errorf("a change while an instance is gone: %v", err)
	}
	c.look(t.Context())
	if !c.nodes[0].down.Load() || !strings.Contains(string(c.latest), `"up":false`) {
		t.Errorf("not down in %s", c.latest)
	}
}

func TestHealthFlag(t *testing.T) {
	_, i, _ := cockpitFor(t)
	for path, want := range map[string]int{"/healthz": 0, "/nothing": 1} {
		if code := run(t.Context(), []string{"-health", "http://" + i.addr + path}, io.Discard, io.Discard); code != want {
			t.Errorf("%s: exit code %d, want %d", path, code, want)
		}
	}
}
