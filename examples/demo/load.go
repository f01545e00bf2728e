package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// loadSettings are what the clients do.
type loadSettings struct {
	Mode    string  `json:"mode"`    // mixed: four of different manners; equal: as below; off
	Clients int     `json:"clients"` // how many equal ones
	Rate    float64 `json:"rate"`    // requests a second, of each
	Burst   int     `json:"burst"`   // how many of them at once
}

// What the demo sends at most: it shows how limits work, not how fast.
const (
	maxEqual = 20
	maxRate  = 200.0
	maxBurst = 100
	maxTotal = 1000.0
)

func (l loadSettings) check() error {
	switch {
	case l.Mode == "mixed", l.Mode == "off":
		return nil
	case l.Mode != "equal":
		return fmt.Errorf("mode: %q, must be mixed, equal or off", l.Mode)
	case l.Clients < 1 || l.Clients > maxEqual:
		return fmt.Errorf("clients: %d, must be 1 to %d", l.Clients, maxEqual)
	case !(l.Rate >= 0.1 && l.Rate <= maxRate):
		return fmt.Errorf("rate: %v, must be 0.1 to %v requests a second", l.Rate, maxRate)
	case l.Burst < 1 || l.Burst > maxBurst:
		return fmt.Errorf("burst: %d, must be 1 to %d", l.Burst, maxBurst)
	case float64(l.Clients)*l.Rate > maxTotal:
		return fmt.Errorf("clients, rate: %v requests a second in total, must be at most %v", float64(l.Clients)*l.Rate, maxTotal)
	}
	return nil
}

// A load is the clients that run.
type load struct {
	wire  *wire
	tally *tally

	mu      sync.Mutex
	now     loadSettings
	limit   redislimiter.Limit
	clients []*client
	extra   []*client // of blasts
	dismiss context.CancelFunc
	blasts  int
	closed  bool
	all     context.Context
	end     context.CancelFunc
	driving sync.WaitGroup
}

func newLoad(w *wire, t *tally, limit redislimiter.Limit) *load {
	l := &load{wire: w, tally: t, limit: limit, now: loadSettings{Mode: "mixed", Clients: 3, Rate: 15, Burst: 1}}
	l.all, l.end = context.WithCancel(context.Background())
	l.dismiss = func() {}
	l.clients = l.make()
	return l
}

// make makes the clients, which do nothing yet.
func (l *load) make() []*client {
	switch l.now.Mode {
	case "mixed":
		return newClients(l.limit, l.wire)
	case "equal":
		return equalClients(l.now, l.wire)
	}
	return nil
}

// send lets the clients loose. Requests of former ones that are under way end
// by themselves.
func (l *load) send() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.restart()
}

func (l *load) restart() {
	l.dismiss()
	ctx, cancel := context.WithCancel(l.all)
	l.dismiss = cancel
	l.clients = l.make()
	if l.closed {
		return
	}
	for _, c := range l.clients {
		l.driving.Go(func() { c.drive(ctx, l.tally) })
	}
}

func (l *load) set(s loadSettings) error {
	if err := s.check(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if s.Mode != "equal" { // the numbers stay for the next time
		s.Clients, s.Rate, s.Burst = l.now.Clients, l.now.Rate, l.now.Burst
	}
	l.now = s
	l.restart()
	return nil
}

// relimit tells which limit the mixed clients go by.
func (l *load) relimit(limit redislimiter.Limit) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = limit
	if l.now.Mode == "mixed" {
		l.restart()
	}
}

const blastLength = 8 * time.Second

// blast adds a client that nobody has seen before: it sends more than a full
// bucket at once and goes on at several times the rate.
func (l *load) blast() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.extra) > 0 || l.closed {
		return statusError{http.StatusConflict, errors.New("a blast is under way")}
	}
	l.blasts++
	interval := min(max(l.limit.Per()/time.Duration(l.limit.Rate())/3, 10*time.Millisecond), 200*time.Millisecond)
	c := &client{
		name: "blast", interval: interval, atOnce: 1, first: min(l.limit.Burst()*3/2+1, 300),
		address: netip.AddrFrom4([4]byte{198, 51, 100, byte(l.blasts)}),
	}
	c.connect(l.wire)
	l.extra = []*client{c}
	l.driving.Go(func() {
		ctx, cancel := context.WithTimeout(l.all, blastLength)
		defer cancel()
		c.drive(ctx, l.tally)
		l.mu.Lock()
		defer l.mu.Unlock()
		l.extra = nil
	})
	return nil
}

// state is what runs: the settings, and the clients.
func (l *load) state() (loadSettings, []*client) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.now, append(append([]*client(nil), l.clients...), l.extra...)
}

// stop ends all clients and waits for their last answers.
func (l *load) stop() {
	l.mu.Lock()
	l.closed = true
	l.mu.Unlock()
	l.end()
	l.driving.Wait()
}
