package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A client sends requests to the edge in its manner, until it is told to stop.
type client struct {
	name     string
	address  netip.Addr
	interval time.Duration
	atOnce   int  // requests every interval, all at the same time
	first    int  // of the first volley, if it is another number
	forges   bool // sends another X-Forwarded-For each time
	http     *http.Client
}

// newClients makes clients to whom the limit means something: one that stays
// below it, one far above, one that comes in volleys, and one that tries to
// pass for somebody else. Addresses are from the block for documentation.
func newClients(limit redislimiter.Limit, w *wire) []*client {
	one := limit.Per() / time.Duration(limit.Rate()) // at this interval all is admitted
	// Several times the limit, but neither a load test nor too few to see.
	hurried := min(max(one/3, 8*time.Millisecond), 200*time.Millisecond)
	clients := []*client{
		{name: "steady", interval: max(one*5/4, 8*time.Millisecond), atOnce: 1},
		{name: "greedy", interval: hurried, atOnce: 1},
		{name: "bursty", interval: 2 * time.Second, atOnce: min(limit.Burst()*3/2+1, 100)},
		{name: "forger", interval: hurried, atOnce: 1, forges: true},
	}
	for i, c := range clients {
		c.address = netip.AddrFrom4([4]byte{203, 0, 113, byte(i + 1)})
		c.connect(w)
	}
	return clients
}

// equalClients makes clients of one manner.
func equalClients(s loadSettings, w *wire) []*client {
	clients := make([]*client, s.Clients)
	for i := range clients {
		clients[i] = &client{
			name:     fmt.Sprintf("client-%d", i+1),
			address:  netip.AddrFrom4([4]byte{203, 0, 113, byte(101 + i)}), // not those of newClients
			interval: time.Duration(float64(s.Burst) / s.Rate * float64(time.Second)),
			atOnce:   s.Burst,
		}
		clients[i].connect(w)
	}
	return clients
}

func (c *client) connect(w *wire) {
	dial := func(ctx context.Context, _, _ string) (net.Conn, error) { return w.dialFrom(ctx, c.address) }
	c.http = &http.Client{
		Transport: &http.Transport{DialContext: dial, MaxIdleConnsPerHost: max(c.atOnce, c.first)},
		Timeout:   5 * time.Second,
	}
}

// manner is how the client behaves, in words.
func (c *client) manner() string {
	text := fmt.Sprintf("%.3g requests a second", float64(c.atOnce)/c.interval.Seconds())
	switch {
	case c.first > 0:
		text = fmt.Sprintf("%d requests at once, then %.3g a second", c.first, 1/c.interval.Seconds())
	case c.forges:
		text += ", forging X-Forwarded-For"
	case c.atOnce > 1:
		text = fmt.Sprintf("%d requests at once every %v", c.atOnce, c.interval)
	}
	return text
}

// drive sends requests until ctx is done and the last one is answered. A
// client that waits for an answer sends nothing meanwhile.
func (c *client) drive(ctx context.Context, t *tally) {
	defer c.http.CloseIdleConnections()
	ticker := time.NewTicker(c.interval)
	defer ticker.Stop()
	unhurried := context.WithoutCancel(ctx) // a request under way is not cut off
	for atOnce := max(c.first, c.atOnce); ; atOnce = c.atOnce {
		var volley sync.WaitGroup
		for range atOnce {
			volley.Go(func() { c.send(unhurried, t) })
		}
		volley.Wait()
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
	}
}

func (c *client) send(ctx context.Context, t *tally) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://edge/hello", nil)
	if err != nil {
		t.broke()
		return
	}
	if c.forges {
		request.Header.Set("X-Forwarded-For", fmt.Sprintf("198.51.100.%d", rand.N(256)))
	}
	began := time.Now()
	response, err := c.http.Do(request)
	if err != nil {
		t.broke()
		return
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		t.broke()
		return
	}
	t.answered(response.StatusCode, time.Since(began))
}
