package redislimiter

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/model"
	"github.com/redislimiter/go-redislimiter/scripts"
)

// A call is one caller's wait for an answer of Redis. Calls are used again,
// with their channels.
type call struct {
	ctx      context.Context
	came     time.Time // where calls share trips
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

	finished chan struct{} // receives once there is an answer, or time is up

	lane atomic.Pointer[lane] // whose mu guards what follows

	prev, next *call // while waiting
	waiting    bool
	trip       *trip // that has it on board
	gone       bool  // the caller has left
	landed     bool  // the answer is there, or about to be
	late       bool  // it is gone because its time was up
	sent       bool  // and the server may have got it
}

func newCall() any {
	return &call{finished: make(chan struct{}, 1)}
}

// clear makes a call that nobody else holds ready for its next use.
func (c *call) clear() {
	c.ctx, c.id, c.err, c.trip = nil, "", nil, nil
	c.gone, c.landed = false, false
	c.taken.Spared = false
}

// A lane is a queue of calls that may share trips: while its trips are on their
// way, calls that arrive wait, and those that wait go together in the next. So
// the busier it is, the more calls a trip carries, and a lone caller never
// waits. There is no goroutine without a trip.
//
// One alarm ends the wait of all calls whose time is up: a timer of each call's
// own would cost more than all the rest of a shared trip.
type lane struct {
	mu          sync.Mutex
	first, last *call       // waiting, in the order of their arrival
	alarm       *time.Timer // calls expire
	rings       time.Time   // when it does, no later than the first deadline; zero: not at all
	aloft       []*trip     // those on their way
	departed    time.Time   // the last of them
	landed      time.Time   // one of them, the last time, and
	lander      *trip       // which

	server *server // nil: it depends on the call
	most   int     // so many trips go on their way before calls wait
	apart  bool    // a trip takes calls of one id only
	alone  bool    // a trip takes one call only
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
)

// depart puts a call on its way, alone or with others. A trip that it returns is
// the caller's own to run; it does so only if that is asked for and nobody else
// is on his way.
func (l *Limiter) depart(n *lane, c *call, own bool) *trip {
	n.mu.Lock()
	defer n.mu.Unlock()
	if c.gone {
		return nil
	}
	n.push(c)
	n.watch(c.deadline)
	if flying := len(n.aloft); flying >= n.most && (n.alone || flying >= maxTrips || c.came.Sub(n.departed) < patience) {
		return nil
	}
	t := l.trips.Get().(*trip)
	n.aloft = append(n.aloft, t)
	t.limiter, t.lane, t.extra = l, n, len(n.aloft) > n.most
	t.board()
	if own && !slices.ContainsFunc(n.aloft, func(other *trip) bool { return other != t && !other.landed }) {
		return t
	}
	go t.start()
	return nil
}

// watch has the alarm ring at a deadline, if not before. The mu is held.
func (n *lane) watch(deadline time.Time) {
	switch {
	case !n.rings.IsZero() && !deadline.Before(n.rings):
		return
	case n.alarm == nil:
		n.alarm = time.AfterFunc(time.Until(deadline), n.expire)
	default:
		n.alarm.Reset(time.Until(deadline))
	}
	n.rings = deadline
}

// expire ends the wait of the calls whose time is up.
func (n *lane) expire() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.rings = time.Time{}
	now := time.Now()
	var next time.Time
	check := func(c *call) {
		switch {
		case c.gone || c.landed:
		case !c.deadline.After(now):
			c.late, c.sent = true, n.drop(c)
			c.finished <- struct{}{}
		case next.IsZero() || c.deadline.Before(next):
			next = c.deadline
		}
	}
	for c := n.first; c != nil; {
		after := c.next
		check(c)
		c = after
	}
	for _, t := range n.aloft {
		if !t.landed {
			for _, c := range t.calls {
				check(c)
			}
		}
	}
	if !next.IsZero() {
		n.watch(next)
	}
}

// drop takes a call off its way, and reports whether the server may have got
// it. The mu is held.
func (n *lane) drop(c *call) (sent bool) {
	c.gone = true
	if c.waiting {
		n.remove(c)
	}
	if c.trip == nil {
		return false
	}
	// The trip still has the call. The last one to leave ends the trip.
	if c.trip.aboard--; c.trip.aboard > 0 {
		return true
	}
	close(c.trip.left)
	return !c.trip.abandon()
}

// leave takes a call off its way when its context ends. It reports whether the
// server may have got it, and whether its wait has come to an end anyway.
func (c *call) leave() (sent, ended bool) {
	n := c.lane.Load()
	n.mu.Lock()
	for n != c.lane.Load() { // it was sent on while we waited for the lock
		n.mu.Unlock()
		n = c.lane.Load()
		n.mu.Lock()
	}
	defer n.mu.Unlock()
	if c.landed || c.gone {
		return true, true
	}
	return n.drop(c), false
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
	c.lane.Store(n)
	if t := l.depart(n, c, l.prompt(ctx, n)); t != nil {
		if t.carry(); t.goesOn() {
			go t.start()
		}
	}
	select {
	case <-c.finished:
	case <-ctx.Done():
		if sent, ended := c.leave(); !ended {
			return l.gone(ctx, sent)
		}
		<-c.finished
	}
	if c.late {
		return l.gone(ctx, c.sent)
	}
	if ctx.Err() == context.Canceled {
		return context.Canceled // never told "allowed"
	}
	return c.err
}

// prompt reports whether a trip may run in the goroutine of a caller, which
// saves two changes of goroutines: whether go-redis comes back at the deadline by
// itself, and that is soon, since it does not look at cancellations.
func (l *Limiter) prompt(ctx context.Context, n *lane) bool {
	return n.server != nil && n.server.prompt && (l.Timeout <= DefaultTimeout || ctx.Done() == nil)
}

// deadline is when a call has to be back that comes now.
func (l *Limiter) deadline(ctx context.Context) time.Time {
	_, end := l.times(ctx)
	return end
}

// times are when a call comes, and when it has to be back.
func (l *Limiter) times(ctx context.Context) (now, end time.Time) {
	timeout := l.Timeout
	if timeout == 0 {
		timeout = DefaultTimeout
	}
	callers, bound := ctx.Deadline()
	if !bound {
		// Half of what time.Now costs, which reads the wall clock as well. Only a
		// context's deadline may have to be compared with that.
		now = l.made.Add(time.Since(l.made))
		return now, now.Add(timeout)
	}
	now = time.Now()
	if end = now.Add(timeout); callers.Before(end) {
		end = callers
	}
	return now, end
}

// timeIsUp reports whether a context's deadline has passed: our alarm may have been
// before the context's own.
func timeIsUp(ctx context.Context) bool {
	deadline, ok := ctx.Deadline()
	return ok && !time.Now().Before(deadline)
}

// gone is the error for a caller that leaves without an answer.
func (l *Limiter) gone(ctx context.Context, sent bool) error {
	err := ctx.Err()
	if err == nil && timeIsUp(ctx) {
		err = context.DeadlineExceeded
	}
	if err != context.Canceled {
		l.lost()
	}
	switch err {
	case nil:
		return &unavailable{name: l.name, cause: errTimeout, uncertain: sent}
	case context.DeadlineExceeded:
		return &unavailable{name: l.name, cause: err, uncertain: sent}
	default:
		return err
	}
}
