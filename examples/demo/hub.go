package main

import (
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	maxReaders = 100
	// readerLag is how many messages a reader may be behind. One that is
	// further behind is dropped; its browser connects again.
	readerLag = 16
	// writeTimeout ends a connection that takes nothing any more.
	writeTimeout = 5 * time.Second
)

// A hub passes messages on to all that read them, and waits for none.
type hub struct {
	mu      sync.Mutex
	readers map[chan []byte]struct{}
	closed  bool
}

func newHub() *hub { return &hub{readers: map[chan []byte]struct{}{}} }

// join adds a reader. Its channel is closed when it is too slow, or at the end.
func (h *hub) join() (chan []byte, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed || len(h.readers) >= maxReaders {
		return nil, statusError{http.StatusServiceUnavailable, errors.New("too many pages are open")}
	}
	c := make(chan []byte, readerLag)
	h.readers[c] = struct{}{}
	return c, nil
}

func (h *hub) leave(c chan []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.readers, c)
}

func (h *hub) publish(message []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for c := range h.readers {
		select {
		case c <- message:
		default:
			delete(h.readers, c)
			close(c)
		}
	}
}

// close ends all readers, and lets no new ones in.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for c := range h.readers {
		delete(h.readers, c)
		close(c)
	}
}

// message is a server-sent event. The data must be one line.
func message(event string, data []byte) []byte {
	return fmt.Appendf(nil, "event: %s\ndata: %s\n\n", event, data)
}

// stream sends what the reader has missed and then all that is published, until
// either side ends.
func (h *hub) stream(w http.ResponseWriter, r *http.Request, missed func() [][]byte) {
	c, err := h.join()
	if err != nil {
		writeError(w, err)
		return
	}
	defer h.leave(c)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	control := http.NewResponseController(w)
	send := func(message []byte) bool {
		_ = control.SetWriteDeadline(time.Now().Add(writeTimeout))
		if _, err := w.Write(message); err != nil {
			return false
		}
		return control.Flush() == nil
	}
	if !send([]byte("retry: 1000\n\n")) {
		return
	}
	for _, message := range missed() {
		if !send(message) {
			return
		}
	}
	for {
		select {
		case message, open := <-c:
			if !open || !send(message) {
				return
			}
		case <-r.Context().Done():
			return
		}
	}
}
