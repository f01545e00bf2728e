package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"
)

const (
	tick       = 250 * time.Millisecond
	askTimeout = time.Second // of an instance
	keptPoints = 240         // a minute of the chart
	keptNotes  = 12
)

// A cockpit looks into the instances four times a second, tells the pages what
// it saw, and changes the settings. The instances may be in this process or in
// others: it knows no more of them than their addresses.
type cockpit struct {
	nodes  []*node
	http   *http.Client
	load   *load
	trials *trials
	hub    *hub
	redis  string // what is shared, in words
	began  time.Time

	// change makes a checked change. The terminal's show puts itself in
	// front of apply, since its sums depend on the limit.
	change func(context.Context, func(*settings)) error

	applying sync.Mutex // held while a change is on its way to the instances

	mu      sync.Mutex
	want    settings
	watched watched
	points  []point
	notes   []note
	latest  []byte // the last frame, as JSON

	cancel context.CancelFunc
	done   sync.WaitGroup
}

// A note marks what somebody did, on the chart.
type note struct {
	At   int64  `json:"at"` // milliseconds since the start
	Text string `json:"text"`
}

func newCockpit(nodes []*node, l *load, s settings, redis string) *cockpit {
	c := &cockpit{
		nodes: nodes, load: l, want: s, redis: redis, hub: newHub(), began: time.Now(),
		http:   &http.Client{Timeout: askTimeout, Transport: &http.Transport{MaxIdleConnsPerHost: 4}},
		cancel: func() {},
	}
	c.change = c.apply
	c.trials = newTrials(l.wire, c.hub, c.connect)
	return c
}

// run begins to look.
func (c *cockpit) run() {
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	c.done.Go(func() {
		ticker := time.NewTicker(tick)
		defer ticker.Stop()
		for {
			c.look(ctx)
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
}

// hangUp ends what goes to pages.
func (c *cockpit) hangUp() { c.hub.close() }

func (c *cockpit) stop() {
	c.trials.stop()
	c.cancel()
	c.done.Wait()
	c.http.CloseIdleConnections()
}

// elapsed is the time on the chart's axis.
func (c *cockpit) elapsed(now time.Time) int64 { return now.Sub(c.began).Milliseconds() }

// settings are those that every instance is meant to have.
func (c *cockpit) settings() settings {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.want
}

// propose checks a change and makes it, unless it changes nothing.
func (c *cockpit) propose(ctx context.Context, mutate func(*settings)) error {
	now := c.settings()
	next := now
	mutate(&next)
	if err := next.check(); err != nil {
		return err
	}
	if next == now {
		return nil
	}
	return c.change(ctx, mutate)
}

// connect plugs Redis in or cuts it off.
func (c *cockpit) connect(ctx context.Context, connected bool) error {
	return c.propose(ctx, func(s *settings) { s.Connected = connected })
}

// apply makes a change in all instances. One that does not answer gets it once
// it does.
func (c *cockpit) apply(ctx context.Context, mutate func(*settings)) error {
	c.applying.Lock()
	defer c.applying.Unlock()
	before := c.settings()
	next := before
	mutate(&next)
	limit, err := next.limit()
	if err != nil {
		return err
	}
	c.mu.Lock()
	c.want = next
	c.mu.Unlock()
	errs := make([]error, len(c.nodes))
	var all sync.WaitGroup
	for i, n := range c.nodes {
		all.Go(func() { errs[i] = c.push(ctx, n, next) })
	}
	all.Wait()
	c.mu.Lock()
	c.noted(changed(before, next))
	if !before.sameLimit(next) {
		c.watched.rebase = true
	}
	c.mu.Unlock()
	if !before.sameLimit(next) {
		c.load.relimit(limit)
	}
	return errors.Join(errs...)
}

// changed is what a change was, in words.
func changed(before, next settings) string {
	switch {
	case before.Connected && !next.Connected:
		return "Redis cut"
	case !before.Connected && next.Connected:
		return "Redis back"
	case before.OnFailure != next.OnFailure:
		return "policy " + next.OnFailure
	case before.CacheDenials != next.CacheDenials:
		return map[bool]string{true: "denial cache on", false: "denial cache off"}[next.CacheDenials]
	case before.Algorithm != next.Algorithm:
		return next.Algorithm
	}
	return fmt.Sprintf("%d per %v", next.Rate, next.Per)
}

// noted adds a note; the caller has the lock.
func (c *cockpit) noted(text string) {
	c.notes = append(c.notes, note{c.elapsed(time.Now()), text})
	c.notes = c.notes[max(0, len(c.notes)-keptNotes):]
}

// note marks something that is no setting.
func (c *cockpit) note(text string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.noted(text)
}

// push gives an instance its settings. That it does not answer is no error.
func (c *cockpit) push(ctx context.Context, n *node, s settings) error {
	body, err := json.Marshal(s)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, n.url.JoinPath("/-/settings").String(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := c.http.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		return statusError{http.StatusBadGateway, fmt.Errorf("%s does not take the settings: %s", n.name, response.Status)}
	}
	return nil
}

// ask returns what an instance has counted, nil if it does not answer.
func (c *cockpit) ask(ctx context.Context, n *node) *snapshot {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, n.url.JoinPath("/-/stats").String(), nil)
	if err != nil {
		return nil
	}
	response, err := c.http.Do(request)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	s := &snapshot{}
	if response.StatusCode != http.StatusOK || json.NewDecoder(response.Body).Decode(s) != nil {
		return nil
	}
	return s
}

// look asks all instances and tells the pages.
func (c *cockpit) look(ctx context.Context) {
	began := time.Now()
	snapshots := make([]*snapshot, len(c.nodes))
	var all sync.WaitGroup
	for i, n := range c.nodes {
		all.Go(func() { snapshots[i] = c.ask(ctx, n) })
	}
	all.Wait()
	if ctx.Err() != nil {
		return
	}
	c.reconcile(ctx, snapshots)
	load, clients := c.load.state()

	c.mu.Lock()
	c.watched.add(sample{at: time.Now(), snapshots: c.watched.continued(snapshots)}, began)
	f := c.frame(load, clients)
	c.points = append(c.points, f.Point)
	c.points = c.points[max(0, len(c.points)-keptPoints):]
	data, err := json.Marshal(f)
	c.latest = data
	c.mu.Unlock()
	if err == nil {
		c.hub.publish(message("state", data))
	}
}

// reconcile notes who is down, and gives settings to an instance that has
// others: it was started again.
func (c *cockpit) reconcile(ctx context.Context, snapshots []*snapshot) {
	for i, n := range c.nodes {
		n.down.Store(snapshots[i] == nil)
	}
	if !c.applying.TryLock() {
		return // they are on their way
	}
	defer c.applying.Unlock()
	want := c.settings()
	for i, n := range c.nodes {
		if s := snapshots[i]; s != nil && s.Settings != want {
			_ = c.push(ctx, n, want) // the next look tells
		}
	}
}

// missed is what a page needs first: the last minute, the state, the trial.
func (c *cockpit) missed() [][]byte {
	c.mu.Lock()
	points, err := json.Marshal(c.points)
	latest := c.latest
	c.mu.Unlock()
	var messages [][]byte
	if err == nil && latest != nil {
		messages = append(messages, message("history", points), message("state", latest))
	}
	if data := c.trials.json(); data != nil {
		messages = append(messages, message("trial", data))
	}
	return messages
}
