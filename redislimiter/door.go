package redislimiter

import (
	"context"
	"net"
	"runtime"
	"sync"
	"sync/atomic"
	"time"
	"weak"

	"github.com/redis/go-redis/v9"
)

// A door is what the limiters of one client know of the way to the server.
//
// After a connection was lost or none could be had, a trip knocks before it
// gives go-redis a command: it dials, sends a PING, and hangs up when anything
// is said to it. go-redis would dial five times for each command, goes on when
// nobody waits any more, with a connection of its pool taken for up to half a
// minute if nothing answers, and after as many failures as its pool has
// connections dials only once a second, also when the server is back. So
// nothing of this may begin.
type door struct {
	suspect atomic.Bool // a connection was lost, or none could be had, and nothing was answered since
	none    atomic.Bool // none could be had since the last knock

	// Commands that go-redis has been given. It may be dialling for those that
	// it has not written, and the others have had a connection.
	unwritten, awaited atomic.Int32

	mu      sync.Mutex
	last    time.Time // the last knock
	err     error     // what came of it
	knocked chan struct{}
}

const (
	// knocks is the time between two knocks that nobody hears. What comes
	// earlier gets the error of the last one.
	knocks = 200 * time.Millisecond
	// opened is for how long a knock that was heard is enough, unless there is
	// reason to doubt it: no connection could be had, and none waits for a
	// reply, as those to a server that is stalled do.
	opened = time.Second
	// dialling is what a knock has at least, however little time is left to who
	// knocks: otherwise a server that is farther away than some deadlines would be
	// taken for dead.
	dialling = 150 * time.Millisecond
	// vanguard is how many trips may have go-redis dial at a time before it is
	// known whether anybody is there.
	vanguard = 4
)

// doors has the door of each client, by a weak pointer to its options, which
// wrappers around it share.
var doors sync.Map

func doorOf(options *redis.Options) *door {
	key := weak.Make(options)
	d, known := doors.LoadOrStore(key, &door{})
	if !known {
		runtime.AddCleanup(options, func(key weak.Pointer[redis.Options]) { doors.Delete(key) }, key)
	}
	return d.(*door)
}

// doubtful reports whether there is reason to knock before a trip: a connection
// was lost, or there is none and others already wait for one. An extra trip goes
// because those before it do not come back.
func (d *door) doubtful(client dialler, extra bool) bool {
	return d.suspect.Load() || d.crowded(client) || extra && client.PoolStats().IdleConns == 0
}

func (d *door) crowded(client dialler) bool {
	return d.unwritten.Load() >= vanguard && d.awaited.Load() == 0 && client.PoolStats().IdleConns == 0
}

// knock returns an error if the server cannot be dialled.
func (d *door) knock(client dialler, left <-chan struct{}, deadline time.Time) error {
	pool := client.PoolStats()
	doubt := d.none.Load() && pool.TotalConns == pool.IdleConns || d.crowded(client)
	d.mu.Lock()
	if since := time.Since(d.last); since >= opened || since >= knocks && (d.err != nil || doubt) {
		d.none.Store(false)
		d.last, d.err, d.knocked = time.Now(), nil, make(chan struct{})
		if least := d.last.Add(dialling); deadline.Before(least) {
			deadline = least
		}
		go d.dial(client.Options(), deadline, d.knocked)
	}
	knocked := d.knocked
	d.mu.Unlock()
	select {
	case <-knocked:
		d.mu.Lock()
		defer d.mu.Unlock()
		return d.err
	case <-left:
		return errTimeout
	}
}

// answers returns an error if nobody is there: a server that is stopped has a
// system that still takes connections. An answer of any kind will do; without a
// password it is an error.
func answers(conn net.Conn, deadline time.Time) error {
	if err := conn.SetDeadline(deadline); err != nil {
		return err
	}
	if _, err := conn.Write([]byte("*1\r\n$4\r\nPING\r\n")); err != nil {
		return err
	}
	_, err := conn.Read(make([]byte, 1))
	return err
}

// dial is a knock.
func (d *door) dial(options *redis.Options, deadline time.Time, knocked chan<- struct{}) {
	ctx, cancel := context.WithDeadline(context.Background(), deadline)
	defer cancel()
	conn, err := options.Dialer(ctx, options.Network, options.Addr)
	if err == nil {
		err = answers(conn, deadline)
		conn.Close()
	}
	d.mu.Lock()
	d.err = err
	d.mu.Unlock()
	close(knocked)
}
