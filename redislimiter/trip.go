package redislimiter

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"runtime"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/model"
	"github.com/redislimiter/go-redislimiter/scripts"
)

// A trip carries calls to Redis and their answers back, in a goroutine of its
// own (but see Limiter.prompt), so that callers can leave at their deadlines: go-redis looks at neither
// the deadline nor the cancellation of a context while it waits for a reply,
// unless its ContextTimeoutEnabled is set. When it is back it carries those that
// have gathered meanwhile, and ends if there are none.
//
// It is also the context that go-redis gets: done when all callers have left, with
// the values of the caller if it carries just one.
type trip struct {
	limiter *Limiter
	lane    *lane
	start   func() // runs it; kept, since making it allocates

	calls   []*call
	aboard  int  // callers that still wait; guarded by the lane's mu
	landed  bool // the calls are not the trip's any more; guarded likewise
	extra   bool // it goes because others do not come back
	left    chan struct{}
	entries []entry
	places  map[place]int // of entries

	args    []any // of the command, pointing into what follows
	keys    []string
	numbers []int64
	script  *scripts.Script

	server   *server
	command  command
	commands []command // in place of one, if the entries need one each
	state    atomic.Int32
	deadline time.Time
}

// An entry is what the script is asked once: up to count requests of one cost
// for one id.
type entry struct {
	place
	count int64
	taken model.Taken
	again bool  // it has to be asked alone
	err   error // of its own command
}

// Calls of one place are one entry.
type place struct {
	id   string
	cost int64
}

func newTrip() any {
	t := &trip{left: make(chan struct{}), places: map[place]int{}}
	t.start = t.run
	return t
}

// errTimeout is the cause when the limiter's own timeout has passed.
var errTimeout = errors.New("no answer in time")

func (t *trip) Deadline() (time.Time, bool) { return t.deadline, true }
func (t *trip) Done() <-chan struct{}       { return t.left }

// Value keeps tracing whole for a call that travels alone.
func (t *trip) Value(key any) any {
	if len(t.calls) == 1 && t.calls[0] != nil {
		return t.calls[0].ctx.Value(key)
	}
	return nil
}

func (t *trip) Err() error {
	select {
	case <-t.left:
		return context.DeadlineExceeded
	default:
		return nil
	}
}

// run carries loads of calls for as long as there are any.
func (t *trip) run() {
	for {
		t.carry()
		if len(t.calls) > 1 {
			// Those that got their answers here may ask again at once. They
			// run first, so that the next load has them on board and not
			// just the first of them.
			runtime.Gosched()
		}
		if !t.goesOn() {
			return
		}
	}
}

// carry takes one load to Redis and its answers back.
func (t *trip) carry() {
	t.load()
	t.land(t.travel())
}

// goesOn boards the next load. If there is none the trip has ended.
func (t *trip) goesOn() bool {
	n := t.lane
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.first == nil || len(n.aloft) > n.most && n.othersLand(t) {
		i := slices.Index(n.aloft, t)
		n.aloft = slices.Delete(n.aloft, i, i+1)
		t.limiter.trips.Put(t)
		return false
	}
	t.board()
	return true
}

// board takes the calls that wait. The lane's mu is held.
func (t *trip) board() {
	t.lane.departed = time.Now()
	t.calls, t.landed = t.calls[:0], false
	for c := t.lane.first; c != nil && len(t.calls) < maxCalls; {
		next := c.next
		if len(t.calls) == 0 || !t.lane.apart || c.id == t.calls[0].id {
			t.lane.remove(c)
			c.trip = t
			t.calls = append(t.calls, c)
		}
		if t.lane.alone {
			break
		}
		c = next
	}
	t.aboard = len(t.calls)
	select {
	case <-t.left: // everybody had left the load before
		t.left = make(chan struct{})
	default:
	}
	t.state.Store(idle)
}

// load makes arguments of the calls: those of one command, or of one for each
// entry where keys may live on different nodes, or slots.
func (t *trip) load() {
	l, first := t.limiter, t.calls[0]
	t.server = l.serverOf(t.lane, first.id)
	t.deadline = first.deadline
	t.script = l.script
	t.commands = t.commands[:0]
	if first.script != nil {
		t.script, t.args = first.script, append(t.args[:0], first.args...)
		return
	}
	t.gather()
	if len(t.entries) > 1 && l.pipeliner != nil && (l.nodes != nil || l.crossSlot.Load()) {
		t.split()
		return
	}
	t.keys, t.numbers = t.keys[:0], t.numbers[:0]
	for _, e := range t.entries {
		for _, prefix := range l.prefixes {
			t.keys = append(t.keys, prefix+e.id+"}")
		}
		t.numbers = append(t.numbers, e.cost, e.count)
	}
	t.args = append(t.args[:0], nil, nil, len(t.keys))
	for i := range t.keys {
		t.args = append(t.args, &t.keys[i])
	}
	t.args = append(t.args, l.args...)
	for i := range t.numbers {
		t.args = append(t.args, &t.numbers[i])
	}
}

// gather puts calls of one id and cost into one entry, in the order of their
// arrival.
func (t *trip) gather() {
	t.entries = t.entries[:0]
	clear(t.places)
	for _, c := range t.calls {
		if c.deadline.After(t.deadline) {
			t.deadline = c.deadline
		}
		p, count := place{c.id, c.taken.Cost}, c.taken.Count
		if c.taken.AtMost {
			count = -count
		} else if i, ok := t.find(p); ok {
			c.entry, c.request = i, t.entries[i].count
			t.entries[i].count++
			continue
		} else if len(t.calls) > 1 {
			t.places[p] = len(t.entries)
		}
		c.entry, c.request = len(t.entries), 0
		t.entries = append(t.entries, entry{place: p, count: count})
	}
}

// find looks for the entry of a place. Often it is the one before: a hot key.
func (t *trip) find(p place) (int, bool) {
	if i := len(t.entries) - 1; i >= 0 && t.entries[i].place == p && t.entries[i].count > 0 {
		return i, true
	}
	i, ok := t.places[p]
	return i, ok
}

// land hands out the answers.
func (t *trip) land(reply []int64, err error) {
	l, n := t.limiter, t.lane
	switch {
	case err != nil:
		err = t.judge(err)
	case len(t.commands) > 0:
		t.judgeEach()
	case t.calls[0].script == nil:
		err = t.decode(reply)
	}
	again := func(c *call) bool {
		return err == errAskAlone || err == nil && c.script == nil && t.entries[c.entry].again
	}
	n.mu.Lock()
	t.landed = true
	for i, c := range t.calls {
		if c.trip = nil; c.gone {
			t.calls[i] = nil
		} else if c.landed = !again(c); !c.landed {
			c.lane.Store(&l.single)
		}
	}
	n.mu.Unlock()
	for i, c := range t.calls {
		if c == nil {
			continue
		}
		t.calls[i] = nil
		if again(c) {
			l.depart(&l.single, c, false)
			continue
		}
		c.err, c.reply = err, reply
		if err == nil && c.script == nil {
			e := &t.entries[c.entry]
			c.err = e.err
			e.taken.CopyTo(&c.taken, len(l.rules))
		}
		c.finished <- struct{}{} // c is the caller's from here on
	}
}

// errAskAlone: nothing was charged, because the state of one of several ids is
// not what it should be. Each has to be asked about alone.
var errAskAlone = errors.New("ask alone")

// judge turns a trip's error into what its callers get.
func (t *trip) judge(err error) error {
	// An error that the script returned says that it had charged nothing;
	// one that stopped it names its line.
	if len(t.calls) > 1 && replied(err) && !nothingRan(err) && !noScript(err) && !stopped(err) {
		if hasCode(err, "CROSSSLOT") {
			t.limiter.crossSlot.Store(true)
		}
		return errAskAlone
	}
	return classify(t.limiter.name, err, t.state.Load() == written)
}

// stopped reports whether an error stopped the script in its middle.
func stopped(err error) bool {
	return strings.Contains(err.Error(), "user_script")
}

// decode reads the answers of all entries.
func (t *trip) decode(reply []int64) error {
	for i := range t.entries {
		if err := t.entries[i].decode(t.limiter, reply, i); err != nil {
			return err
		}
	}
	return nil
}

// decode reads the i-th answer of a reply.
func (e *entry) decode(l *Limiter, reply []int64, i int) error {
	e.taken.Charge = model.Charge{Cost: e.cost, Count: e.count}
	if e.count < 0 {
		e.taken.Charge = model.Charge{Cost: e.cost, Count: -e.count, AtMost: true}
	}
	decided, err := l.script.Decode(reply, i, &e.taken)
	if err != nil {
		return &unavailable{name: l.name, cause: err, uncertain: true}
	}
	e.again = !decided
	return nil
}

// travel sends the command until there is an answer, or nothing can come of it.
func (t *trip) travel() ([]int64, error) {
	if err := t.knock(); err != nil {
		return nil, err
	}
	if t.server.door.suspect.Load() {
		t.testConnections()
	}
	if len(t.commands) > 0 {
		t.sendEach()
		return nil, nil
	}
	err := t.send(evalsha, &t.script.SHA)
	if noScript(err) {
		// EVAL loads the script and runs it, in one step and on the very
		// node that lacks it: a restarted server, a promoted replica, the
		// target of a slot that is being moved.
		err = t.send(eval, &t.script.Text)
	}
	if err != nil {
		t.doubt(err)
		return nil, err
	}
	t.arrived()
	return t.command.Val(), nil
}

// arrived is told that a command found its server.
func (t *trip) arrived() {
	if n := t.limiter.nodes; n != nil && !n.known.Load() {
		n.known.Store(true)
	}
}

// doubt notes what an error says about the way to the server.
func (t *trip) doubt(err error) {
	none := t.unreached(err)
	if none {
		t.server.door.none.Store(true)
	}
	if none || t.state.Load() == written && broken(err) {
		t.server.door.suspect.Store(true)
	}
}

// broken reports whether a connection was found closed.
func broken(err error) bool {
	var network net.Error
	return !replied(err) && !errors.As(err, &network) || errors.As(err, &network) && !network.Timeout()
}

// knock returns an error if the server is known not to be reached. One of which
// it is not known how it is dialled is trusted.
func (t *trip) knock() error {
	s := t.server
	if s.client == nil || !s.door.doubtful(s.client, t.extra) {
		return nil
	}
	for {
		err := s.door.knock(s.client, t.left, t.deadline)
		if err == nil {
			return nil
		}
		s.door.suspect.Store(true)
		t.limiter.lost()
		if !t.sleep(knocks + rand.N(knocks/4)) { // only who is patient can knock again; sooner the answer is the same
			return err
		}
	}
}

// unreached reports whether the command got no connection.
func (t *trip) unreached(err error) bool {
	return t.server.client != nil && t.state.Load() != written && !replied(err) && !errors.Is(err, redis.ErrClosed)
}

// maxTests bounds the PINGs of testConnections.
const maxTests = 64

// testConnections sends PINGs until one is answered. After a restart of the
// server go-redis's pool is full of connections that are closed, and does not
// see it of TLS and of wrapped ones. Each takes a command that it is given down
// with it: better one that can be sent again than a charge.
func (t *trip) testConnections() {
	for range maxTests {
		if t.Err() != nil || time.Until(t.deadline) <= 0 {
			return
		}
		err := t.server.rdb.Process(t, redis.NewStatusCmd(t, "ping"))
		if err == nil || replied(err) {
			t.server.door.suspect.Store(false)
			return
		}
		if !broken(err) || nothingRan(err) {
			return
		}
	}
}

// send sends the command, and again only while the server proves that it ran
// nothing.
func (t *trip) send(name any, script *string) error {
	t.args[0], t.args[1] = name, script
	pause := time.Millisecond
	for {
		t.command = t.newCommand(t.args)
		t.state.CompareAndSwap(idle, given)
		if t.Err() != nil {
			return errTimeout
		}
		t.server.door.unwritten.Add(1)
		err := t.limiter.rdb.Process(t, &t.command)
		t.returned()
		if err != nil && !replied(err) {
			t.limiter.lost()
		}
		if err == nil || !nothingRan(err) && !noScript(err) && !t.unsent(err) {
			return err
		}
		t.state.CompareAndSwap(written, idle)
		t.state.CompareAndSwap(given, idle)
		// The spread keeps many callers from coming back all at once.
		if noScript(err) || !t.sleep(pause/2+rand.N(pause)) {
			return err
		}
		pause = min(2*pause, 32*time.Millisecond)
	}
}

// returned is told that go-redis has come back with a command, or several.
func (t *trip) returned() {
	if t.state.Load() == written {
		t.server.door.awaited.Add(-1)
	} else {
		t.server.door.unwritten.Add(-1)
	}
}

// unsent reports whether go-redis found no connection in time and so wrote
// nothing. A dial by way of sentinels does not fail as a dial.
func (t *trip) unsent(err error) bool {
	return t.state.Load() == given && errors.Is(err, context.DeadlineExceeded)
}

// sleep waits d, and reports false if the trip would be too late then.
func (t *trip) sleep(d time.Duration) bool {
	if time.Until(t.deadline) <= d {
		return false
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-t.left:
		return false
	}
}
