package faults

import (
	"errors"
	"net"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/ports"
)

// dialTimeout keeps the proxy, and so the end of the test, from waiting for a server whose host has gone.
const dialTimeout = 5 * time.Second

// Proxy stands between clients and one server. All methods may be called at any time, also by several goroutines.
//
// It needs a reply for each request, in order: not for subscriptions under RESP2, MONITOR or CLIENT REPLY OFF.
type Proxy struct {
	tb       testing.TB
	addr     string
	upstream string

	mu       sync.Mutex
	listener net.Listener   // nil while Refuse is set
	fault    Fault          // Times counts down
	changed  chan struct{}  // closed and replaced by each Set, to wake those who wait for the fault to end
	links    map[*link]bool // the open connections
	hole     *hole          // while BlackHole is set
	closed   bool

	forwarded, answered, lost map[string]int // by command
	held                      int

	running sync.WaitGroup // goroutines that must have ended before the test does
}

// Start runs a proxy to the server at upstream, until the end of the test. At first everything passes.
func Start(tb testing.TB, upstream string) *Proxy {
	tb.Helper()
	listener, err := ports.Listen()
	if err != nil {
		tb.Fatalf("start a proxy to %s: %v", upstream, err)
	}
	p := &Proxy{
		tb:        tb,
		addr:      listener.Addr().String(),
		upstream:  upstream,
		listener:  listener,
		changed:   make(chan struct{}),
		links:     map[*link]bool{},
		forwarded: map[string]int{},
		answered:  map[string]int{},
		lost:      map[string]int{},
	}
	p.running.Go(func() { p.accept(listener) })
	tb.Cleanup(p.close)
	return p
}

// Addr is the address to dial instead of the server's. It stays the same under every fault.
func (p *Proxy) Addr() string { return p.addr }

// Set replaces the fault. The new one concerns the requests that come from now on, those that a Stall held among them:
// they count as coming now. A reply is treated as its request was decided. Refuse also cuts every connection.
func (p *Proxy) Set(f Fault) {
	p.tb.Helper()
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
	if p.hole != nil && f.Kind != BlackHole {
		p.hole.fill()
		p.hole = nil
	}
	if f.Kind == Refuse {
		p.cutAll()
		if p.listener != nil {
			p.listener.Close()
			p.listener = nil
		}
	}
	if f.Kind != Refuse && p.listener == nil && !p.closed {
		listener, err := net.Listen("tcp", p.addr)
		if err != nil {
			p.tb.Errorf("the proxy to %s cannot listen again: %v", p.upstream, err)
			return
		}
		p.listener = listener
		p.running.Go(func() { p.accept(listener) })
	}
	if f.Kind == BlackHole && p.hole == nil {
		var err error
		if p.hole, err = dig(p.listener); err != nil {
			p.tb.Errorf("the proxy to %s cannot drop connections: %v", p.upstream, err)
		}
	}
}

// Heal is shorthand for Set of no fault.
func (p *Proxy) Heal() {
	p.tb.Helper()
	p.Set(Fault{})
}

// CutAll cuts the connections there are, with what a Stall holds of them. New ones are as the fault says.
func (p *Proxy) CutAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.cutAll()
}

// Forwarded counts the requests that were sent to the server, of one command ("evalsha") or of all ("").
func (p *Proxy) Forwarded(command string) int { return p.count(p.forwarded, command) }

// Answered counts the replies that were sent on to the client, whether or not it still listened.
func (p *Proxy) Answered(command string) int { return p.count(p.answered, command) }

// Lost counts the replies that the server gave and LoseReply threw away.
func (p *Proxy) Lost(command string) int { return p.count(p.lost, command) }

// Held counts the requests that a Stall holds at this moment: one a connection, since more are not read from it.
func (p *Proxy) Held() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.held
}

func (p *Proxy) count(of map[string]int, command string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if command != "" {
		return of[strings.ToLower(command)]
	}
	sum := 0
	for _, n := range of {
		sum += n
	}
	return sum
}

func (p *Proxy) add(to map[string]int, command string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	to[command]++
}

// cutAll is called with the lock held.
func (p *Proxy) cutAll() {
	for l := range p.links {
		l.cut()
		delete(p.links, l)
	}
}

func (p *Proxy) close() {
	p.mu.Lock()
	p.closed = true
	if p.hole != nil {
		p.hole.fill()
	}
	if p.listener != nil {
		p.listener.Close()
	}
	p.cutAll()
	p.mu.Unlock()
	p.running.Wait()
}

func (p *Proxy) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if errors.Is(err, os.ErrDeadlineExceeded) { // by dig
			p.mu.Lock()
			hole, changed := p.hole != nil, p.changed
			p.mu.Unlock()
			if hole {
				<-changed
			}
			continue
		}
		if err != nil {
			return // closed by Set or close
		}
		p.running.Go(func() { p.connect(client) })
	}
}

// connect links the client with the server, unless the fault forbids it. A server that is down looks to the client
// like a connection that is cut at once.
func (p *Proxy) connect(client net.Conn) {
	server, err := net.DialTimeout("tcp", p.upstream, dialTimeout)
	if err != nil {
		reset(client)
		return
	}
	l := newLink(p, client, server)
	p.mu.Lock()
	if p.closed || p.fault.Kind == Refuse {
		p.mu.Unlock()
		l.cut()
		return
	}
	p.links[l] = true
	p.mu.Unlock()
	l.run()
	p.mu.Lock()
	delete(p.links, l)
	p.mu.Unlock()
}

// decide returns the fault for a request that has just come, and counts it down. The channel is closed by the next
// Set.
func (p *Proxy) decide(command string) (Fault, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := p.fault
	if f.Kind == None || !f.concerns(command) {
		return Fault{}, p.changed
	}
	if !f.holds() && f.Times > 0 {
		if p.fault.Times--; p.fault.Times == 0 {
			p.fault = Fault{}
		}
	}
	return f, p.changed
}

func (p *Proxy) hold(n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held += n
}
