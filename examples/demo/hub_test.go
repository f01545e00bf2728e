package main

import (
	"bufio"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
)

// A reader that takes nothing is dropped, and does not hold up the others.
func TestHubDropsSlowReaders(t *testing.T) {
	h := newHub()
	slow, err := h.join()
	if err != nil {
		t.Fatal(err)
	}
	fast, err := h.join()
	if err != nil {
		t.Fatal(err)
	}
	for range readerLag + 1 {
		h.publish([]byte("x"))
		if string(<-fast) != "x" {
			t.Fatal("a message is lost")
		}
	}
	n := 0
	for range slow {
		n++
	}
	if n != readerLag || len(h.readers) != 1 {
		t.Errorf("the slow reader got %d messages, %d readers are left", n, len(h.readers))
	}
	h.leave(slow) // once more does no harm
	h.leave(fast)
	if len(h.readers) != 0 {
		t.Errorf("%d readers are left", len(h.readers))
	}
}

func TestHubIsBounded(t *testing.T) {
	h := newHub()
	for range maxReaders {
		if _, err := h.join(); err != nil {
			t.Fatal(err)
		}
	}
	w := httptest.NewRecorder()
	h.stream(w, httptest.NewRequest(http.MethodGet, "/api/events", nil), nil)
	if w.Code != http.StatusServiceUnavailable {
		t.Errorf("status %d, want 503", w.Code)
	}
}

// No goroutine is left when browsers leave, and none when the server ends.
func TestStreamEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // it fails if goroutines are left
		h := newHub()
		missed := func() [][]byte { return [][]byte{message("state", []byte("0"))} }
		w := newWire()
		s := serve(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { h.stream(w, r, missed) }), w)
		leaves, stays := reader(t, w), reader(t, w)
		synctest.Wait()
		h.publish(message("state", []byte("1")))
		for _, r := range []*browser{leaves, stays} {
			for _, want := range []string{"retry: 1000", "", "event: state", "data: 0", "", "event: state", "data: 1", ""} {
				if got := r.line(t); got != want {
					t.Fatalf("line %q, want %q", got, want)
				}
			}
		}
		leaves.response.Body.Close()
		leaves.client.CloseIdleConnections()
		synctest.Wait()
		h.mu.Lock()
		n := len(h.readers)
		h.mu.Unlock()
		if n != 1 {
			t.Errorf("%d readers, want the one that stays", n)
		}
		h.close()
		if _, err := stays.lines.ReadString('\n'); err == nil {
			t.Error("the stream goes on after the end")
		}
		if _, err := h.join(); err == nil {
			t.Error("a reader joins after the end")
		}
		stays.response.Body.Close()
		stays.client.CloseIdleConnections()
		if err := s.stop(); err != nil {
			t.Error(err)
		}
	})
}

type browser struct {
	client   *http.Client
	response *http.Response
	lines    *bufio.Reader
}

func reader(t *testing.T, w *wire) *browser {
	t.Helper()
	c := &client{}
	c.connect(w)
	c.http.Timeout = 0
	response, err := c.http.Get("http://edge/api/events")
	if err != nil {
		t.Fatal(err)
	}
	if kind := response.Header.Get("Content-Type"); kind != "text/event-stream" {
		t.Fatalf("content type %q", kind)
	}
	return &browser{c.http, response, bufio.NewReader(response.Body)}
}

func (b *browser) line(t *testing.T) string {
	t.Helper()
	text, err := b.lines.ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSuffix(text, "\n")
}
