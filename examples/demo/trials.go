package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"time"
)

// A scenario is traffic that is sent to several lanes at once.
type scenario struct {
	name    string
	lanes   []lane
	volleys []volley
	steps   []step
	length  time.Duration
}

// A volley is requests that are sent at once.
type volley struct {
	at       time.Duration
	requests int
}

// A step is something that happens to Redis meanwhile.
type step struct {
	at        time.Duration
	connected bool
}

// every makes volleys of one request.
func every(interval, from, to time.Duration) (volleys []volley) {
	for at := from; at < to; at += interval {
		volleys = append(volleys, volley{at, 1})
	}
	return volleys
}

// scenarios are what the page offers. Instants are chosen so that a machine
// that is a tenth of a second late shows the same.
var scenarios = []scenario{
	{
		// The whole quota at the end of a window and again at the beginning
		// of the next. The first request opens the window.
		name: "edge", lanes: algorithmLanes, length: 4500 * time.Millisecond,
		volleys: []volley{{0, 1}, {1500 * time.Millisecond, laneRate - 1}, {2150 * time.Millisecond, laneRate}},
	},
	{
		// A burst, then several times what the limit gives back.
		name: "burst", lanes: algorithmLanes, length: 6500 * time.Millisecond,
		volleys: append([]volley{{0, laneRate * 3 / 2}}, every(70*time.Millisecond, 70*time.Millisecond, 6*time.Second)...),
	},
	{
		name: "outage", lanes: policyLanes, length: 9500 * time.Millisecond,
		volleys: every(100*time.Millisecond, 0, 9*time.Second),
		steps:   []step{{3 * time.Second, false}, {6 * time.Second, true}},
	},
}

// A dot is an answer: when it came, in milliseconds since the trial began, and
// which it was.
type dot struct {
	sent time.Duration
	at   time.Duration
	kind string // by whom it was admitted (redis, memory, open), or refused, unavailable, broken
}

func (d dot) MarshalJSON() ([]byte, error) { return json.Marshal([]any{d.at.Milliseconds(), d.kind}) }

func (d dot) admitted() bool { return d.kind == "redis" || d.kind == "memory" || d.kind == "open" }

// A laneResult is what a lane answered so far.
type laneResult struct {
	Name     string `json:"name"`
	Promise  string `json:"promise"`
	Dots     []dot  `json:"dots"`
	Admitted int    `json:"admitted"`
	Refused  int    `json:"refused"`
	Most     int    `json:"most"` // admitted within one period, wherever it begins
}

// A trial is one run of a scenario.
type trial struct {
	Scenario string       `json:"scenario"`
	Running  bool         `json:"running"`
	Elapsed  int64        `json:"elapsed"` // milliseconds, as Length and Per
	Length   int64        `json:"length"`
	Rate     int          `json:"rate"`
	Per      int64        `json:"per"`
	Cuts     [][2]int64   `json:"cuts"` // when Redis was away
	Lanes    []laneResult `json:"lanes"`
}

// trials runs one trial at a time and publishes what comes out.
type trials struct {
	wire    *wire
	hub     *hub
	connect func(context.Context, bool) error

	mu      sync.Mutex
	current *trial
	began   time.Time
	number  int
	closed  bool
	cancel  context.CancelFunc
	done    sync.WaitGroup
}

func newTrials(w *wire, h *hub, connect func(context.Context, bool) error) *trials {
	return &trials{wire: w, hub: h, connect: connect, cancel: func() {}}
}

func (t *trials) running() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.current != nil && t.current.Running
}

// start begins a scenario and returns at once.
func (t *trials) start(name string) error {
	i := slices.IndexFunc(scenarios, func(s scenario) bool { return s.name == name })
	if i < 0 {
		return fmt.Errorf("scenario: %q, must be edge, burst or outage", name)
	}
	s := scenarios[i]
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed || t.current != nil && t.current.Running {
		return statusError{http.StatusConflict, errors.New("a comparison is under way")}
	}
	t.number++
	t.began = time.Now()
	t.current = &trial{Scenario: name, Running: true, Length: s.length.Milliseconds(), Rate: laneRate, Per: lanePer.Milliseconds()}
	for _, l := range s.lanes {
		t.current.Lanes = append(t.current.Lanes, laneResult{Name: l.name, Promise: l.promise, Dots: []dot{}})
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.cancel = cancel
	// Nobody has seen this client: its quota is full in every lane.
	address := netip.AddrFrom4([4]byte{192, 0, 2, byte(t.number)})
	t.done.Go(func() {
		defer cancel()
		t.run(ctx, s, address)
	})
	return nil
}

// run sends the traffic, makes the steps, and publishes meanwhile.
func (t *trials) run(ctx context.Context, s scenario, address netip.Addr) {
	client := &http.Client{Timeout: 5 * time.Second, Transport: &http.Transport{
		DialContext:         func(ctx context.Context, _, _ string) (net.Conn, error) { return t.wire.dialFrom(ctx, address) },
		MaxIdleConnsPerHost: 100,
	}}
	defer client.CloseIdleConnections()
	var all sync.WaitGroup
	all.Go(func() { t.traffic(ctx, s, client) })
	all.Go(func() { t.steps(ctx, s) })
	finished := make(chan struct{})
	go func() {
		all.Wait()
		close(finished)
	}()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	end := time.NewTimer(s.length)
	defer end.Stop()
	for waiting := (<-chan struct{})(nil); ; {
		select {
		case <-ticker.C:
			t.publish()
		case <-end.C:
			waiting = finished
		case <-ctx.Done():
			waiting = finished
			ctx = context.WithoutCancel(ctx)
		case <-waiting:
			t.mu.Lock()
			t.current.Running = false
			t.mu.Unlock()
			t.publish()
			return
		}
	}
}

// traffic sends the volleys to all lanes, and returns when all are answered.
func (t *trials) traffic(ctx context.Context, s scenario, client *http.Client) {
	var all sync.WaitGroup
	defer all.Wait()
	for _, v := range s.volleys {
		if !t.sleepUntil(ctx, v.at) {
			return
		}
		for i, l := range s.lanes {
			for range v.requests {
				all.Go(func() { t.request(i, l, client) })
			}
		}
	}
}

// steps cuts Redis and brings it back, also when the trial is cut short.
func (t *trials) steps(ctx context.Context, s scenario) {
	for _, step := range s.steps {
		if !t.sleepUntil(ctx, step.at) && !step.connected {
			return
		}
		change, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		err := t.connect(change, step.connected)
		cancel()
		if err != nil {
			return
		}
		t.mu.Lock()
		now := time.Since(t.began).Milliseconds()
		if !step.connected {
			t.current.Cuts = append(t.current.Cuts, [2]int64{now, t.current.Length})
		} else if n := len(t.current.Cuts); n > 0 {
			t.current.Cuts[n-1][1] = now
		}
		t.mu.Unlock()
	}
}

// sleepUntil returns false if ctx ended before.
func (t *trials) sleepUntil(ctx context.Context, at time.Duration) bool {
	timer := time.NewTimer(time.Until(t.began.Add(at)))
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *trials) request(lane int, l lane, client *http.Client) {
	sent := time.Since(t.began)
	kind := ask(client, "http://edge/lanes/"+l.name)
	t.mu.Lock()
	defer t.mu.Unlock()
	d := dot{sent: sent, at: time.Since(t.began), kind: kind}
	r := &t.current.Lanes[lane]
	r.Dots = append(r.Dots, d)
	if d.admitted() {
		r.Admitted++
		r.Most = most(r.Dots, lanePer)
	} else {
		r.Refused++
	}
}

// ask makes a request and tells who decided, by what a client can see.
func ask(client *http.Client, url string) string {
	response, err := client.Get(url)
	if err != nil {
		return "broken"
	}
	defer response.Body.Close()
	if _, err := io.Copy(io.Discard, response.Body); err != nil {
		return "broken"
	}
	switch response.StatusCode {
	case http.StatusOK:
		return cmp.Or(response.Header.Get("X-RateLimit-Fallback"), "redis")
	case http.StatusTooManyRequests:
		return "refused"
	case http.StatusServiceUnavailable:
		return "unavailable"
	}
	return "broken"
}

// most is how many were admitted within one period, wherever it begins. A
// decision was made at some instant between request and answer, so only those
// count that certainly lie within: the number is never too high.
func most(dots []dot, per time.Duration) int {
	best := 0
	for _, first := range dots {
		n := 0
		for _, d := range dots {
			if first.admitted() && d.admitted() && d.sent >= first.sent && d.at < first.sent+per {
				n++
			}
		}
		best = max(best, n)
	}
	return best
}

// json is the last trial as the page gets it; nil if there was none.
func (t *trials) json() []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.current == nil {
		return nil
	}
	t.current.Elapsed = min(time.Since(t.began).Milliseconds(), t.current.Length)
	data, err := json.Marshal(t.current)
	if err != nil {
		return nil
	}
	return data
}

func (t *trials) publish() {
	if data := t.json(); data != nil {
		t.hub.publish(message("trial", data))
	}
}

// stop cuts the trial short.
func (t *trials) stop() {
	t.mu.Lock()
	t.closed = true
	cancel := t.cancel
	t.mu.Unlock()
	cancel()
	t.done.Wait()
}
