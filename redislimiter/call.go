package redislimiter

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/model"
	"github.com/redislimiter/go-redislimiter/scripts"
)

// A call is one caller's wait for an answer of Redis. Calls are used again,
// with their timers and channels.
type call struct {
	ctx      context.Context
	deadline time.Time
	id       string // escaped
	taken    model.Taken
	err      error

	// A call of its own script is made alone, with these arguments, and gets
	// the bare reply.
	script *scripts.Script
	args   []any
	reply  []int64

	request int64 // which of taken's requests it is
	entry   int   // of the trip

	timer    *time.Timer   // rings at the deadline
	finished chan struct{} // receives once there is an answer

	lane atomic.Pointer[lane] // whose mu guards what follows

	prev, next *call // while waiting
	waiting    bool
	trip       *trip // that has it on board
	gone       bool  // the caller has left
	landed     bool  // the answer is there, or about to be
}

func newCall() any {
	c := &call{finished: make(chan struct{}, 1), timer: time.NewTimer(time.Hour)}
	c.timer.Stop()
	return c
}

// clear makes a call that nobody else holds ready for its next use.
func (c *call) clear() {
	c.timer.Stop()
	c.ctx, c.id, c.err, c.trip = nil, "", nil, nil
	c.gone, c.landed = false, false
	c.taken.Spared = false
}

// A lane is a queue of calls that may share trips: while its trips are on their
// way, calls that arrive wait, and those that wait go together in the next. So
// the busier it is, the more calls a trip carries, and a lone caller never
// waits. There is no timer and no goroutine without a trip.
type lane struct {
	mu          sync.Mutex
	first, last *call     // waiting, in the order of their arrival
	flying      int       // trips on their way
	departed    time.Time // the last of them
	landed      time.Time // one of them, the last time, and
	lander      *trip     // which

	most  int  // so many trips go on their way before calls wait
	apart bool // a trip takes calls of one id only: keys may live on different nodes
	alone bool // a trip takes one call only
}

const (
	// sharedTrips keeps Redis busy while the replies of a trip are handed out.
	sharedTrips = 2
	// patience is how long calls wait behind trips that do not come back
	// before another one is tried.
	patience = 10 * time.Millisecond
	// maxTrips bounds the trips of a lane that are on their way, those that
	// nobody waits for any more included.
	maxTrips = 64
	// maxCalls bounds the calls of a trip, and so for how long one script
	// keeps the server busy.
	maxCalls = 512
	// clusterLanes spreads ids whose trips cannot be shared.
	clusterLanes = 256
)

// lanesFor are the lanes of a limiter. On one node all calls can share a trip.
// Elsewhere only calls of one id can, and ids should not wait for each other.
func lanesFor(rdb Client) []lane {
	lanes := make([]lane, 1)
	if manyNodes(rdb) {
		lanes = make([]lane, clusterLanes)
	}
	for i := range lanes {
		lanes[i].most, lanes[i].apart = sharedTrips, len(lanes) > 1
	}
	return lanes
}

// depart puts a call on its way, alone or with others.
func (l *Limiter) depart(n *lane, c *call) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.gone {
		return
	}
	n.push(c)
	now := time.Now()
	if n.flying >= n.most && (n.alone || n.flying >= maxTrips || now.Sub(n.departed) < patience) {
		return
	}
	n.flying++
	n.departed = now
	t := l.trips.Get().(*trip)
	t.limiter, t.lane, t.extra = l, n, n.flying > n.most
	t.board()
	go t.start()
}

// leave takes a call off its way, at the end of its context or its deadline. It
// reports whether the server may have got it, and whether its answer is there
// after all.
func (c *call) leave() (sent, landed bool) {
	n := c.lane.Load()
	n.mu.Lock()
	for n != c.lane.Load() { // it was sent on while we waited for the lock
		n.mu.Unlock()
		n = c.lane.Load()
		n.mu.Lock()
	}
	defer n.mu.Unlock()
	if c.landed {
		return true, true
	}
	c.gone = true
	if c.waiting {
		n.remove(c)
	}
	if c.trip == nil {
		return false, false
	}
	// The trip still has the call. The last one to leave ends the trip.
	if c.trip.aboard--; c.trip.aboard > 0 {
		return true, false
	}
	close(c.trip.left)
	return !c.trip.command.abandon(), false
}

// othersLand reports whether trips other than t come back, so that t, which is
// one more than there should be, can leave what waits to them. The lane's mu is
// held.
func (n *lane) othersLand(t *trip) bool {
	now := time.Now()
	others := n.lander != t && now.Sub(n.landed) < patience
	n.landed, n.lander = now, t
	return others
}

func (n *lane) push(c *call) {
	c.prev, c.next, c.waiting = n.last, nil, true
	if n.last == nil {
		n.first = c
	} else {
		n.last.next = c
	}
	n.last = c
}

func (n *lane) remove(c *call) {
	if c.prev == nil {
		n.first = c.next
	} else {
		c.prev.next = c.next
	}
	if c.next == nil {
		n.last = c.prev
	} else {
		c.next.prev = c.prev
	}
	c.prev, c.next, c.waiting = nil, nil, false
}

// do waits for the call's answer, but no longer than its deadline. The call is
// the caller's again when it returns without an error.
func (l *Limiter) do(ctx context.Context, deadline time.Time, n *lane, c *call) error {
	if l.Timeout < 0 {
		return &argumentError{fmt.Sprintf("redislimiter: %s: Timeout is %v, must not be negative", l.name, l.Timeout)}
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	c.ctx, c.deadline = ctx, deadline
	c.timer.Reset(time.Until(c.deadline))
	c.lane.Store(n)
	l.depart(n, c)
	select {
	case <-c.finished:
	case <-ctx.Done():
		return l.late(ctx, c)
	case <-c.timer.C:
		return l.late(ctx, c)
	}
	return c.answer()
}

// answer is what a call that has landed brought.
func (c *call) answer() error {
	if c.ctx.Err() == context.Canceled {
		return context.Canceled // never told "allowed"
	}
	return c.err
}

// late ends a call whose time is up.
func (l *Limiter) late(ctx context.Context, c *call) error {
	sent, landed := c.leave()
	if landed {
		<-c.finished
		return c.answer()
	}
	return l.gone(ctx, sent)
}

// deadline is when a call has to be back.
func (l *Limiter) deadline(ctx context.Context) time.Time {
	timeout := l.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	deadline := time.Now().Add(timeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		return d
	}
	return deadline
}

// gone is the error for a caller that leaves without an answer.
func (l *Limiter) gone(ctx context.Context, sent bool) error {
	switch err := ctx.Err(); err {
	case nil:
		return &unavailable{name: l.name, cause: errTimeout, uncertain: sent}
	case context.DeadlineExceeded:
		return &unavailable{name: l.name, cause: err, uncertain: sent}
	default:
		return err
	}
}
