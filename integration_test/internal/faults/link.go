package faults

import (
	"bufio"
	"errors"
	"io"
	"net"
	"sync"
	"time"
)

// link is one client connection and the server connection behind it.
type link struct {
	proxy          *Proxy
	client, server net.Conn
	sent           chan request  // forwarded, in order, each waiting for its reply
	gone           chan struct{} // closed by cut
	once           sync.Once
}

// request is what must be known of a request when its reply comes.
type request struct {
	command string
	came    time.Time
	fault   Fault
}

// pipeline is how many requests of one connection may wait for replies before the proxy stops reading. It exceeds
// any pipeline of the tests, so that the proxy is not itself a stall.
const pipeline = 1 << 14

func newLink(p *Proxy, client, server net.Conn) *link {
	return &link{
		proxy:  p,
		client: client,
		server: server,
		sent:   make(chan request, pipeline),
		gone:   make(chan struct{}),
	}
}

// run returns when both directions have ended.
func (l *link) run() {
	var both sync.WaitGroup
	both.Go(l.forward)
	both.Go(l.reply)
	both.Wait()
}

// forward passes requests to the server. At the client's end it closes only this direction: the replies to what the
// client sent before are still owed to it, and the server still runs it.
func (l *link) forward() {
	defer close(l.sent)
	in := bufio.NewReader(l.client)
	for {
		message, err := readMessage(in)
		if err != nil {
			if tcp, ok := l.server.(*net.TCPConn); ok {
				tcp.CloseWrite()
			}
			return
		}
		r := request{command: command(message)}
		if r.fault = l.admit(r.command); r.fault.Kind == LoseRequest {
			l.cut()
			return
		}
		r.came = time.Now()
		// Counted and queued before it is written, so that neither the reply nor a test that has seen the effect
		// on the server can come too early.
		l.proxy.add(l.proxy.forwarded, r.command)
		select {
		case l.sent <- r:
		case <-l.gone:
			return
		}
		if _, err := l.server.Write(message); err != nil {
			l.cut()
			return
		}
	}
}

// admit returns the fault that concerns the request, and holds it as long as that is a Stall or a BlackHole.
func (l *link) admit(command string) Fault {
	for {
		fault, changed := l.proxy.decide(command)
		if !fault.holds() {
			return fault
		}
		l.proxy.hold(+1)
		select {
		case <-changed:
			l.proxy.hold(-1)
		case <-l.gone:
			l.proxy.hold(-1)
			return Fault{Kind: LoseRequest}
		}
	}
}

// reply passes replies to the client, each treated as was decided when its request came.
func (l *link) reply() {
	in := bufio.NewReader(l.server)
	for {
		message, err := readMessage(in)
		if errors.Is(err, io.EOF) {
			l.close(net.Conn.Close) // the server said goodbye, and the client hears just that
			return
		}
		if err != nil {
			l.cut()
			return
		}
		if message[0] != '>' && !l.treat() { // a push belongs to no request
			l.cut()
			return
		}
		if _, err := l.client.Write(message); err != nil {
			// The client has gone. What it sent may still be on its way, or held by a Stall, and is to reach the
			// server as it would without a proxy: so go on reading what the server says to it.
			continue
		}
	}
}

// treat reports whether the reply that has just come is to be passed, after the delay it is due.
func (l *link) treat() bool {
	r, ok := <-l.sent
	if !ok {
		return false
	}
	switch r.fault.Kind {
	case LoseReply:
		l.proxy.add(l.proxy.lost, r.command)
		return false
	case DelayReply:
		due := time.NewTimer(r.fault.Delay - time.Since(r.came))
		defer due.Stop()
		select {
		case <-due.C:
		case <-l.gone:
			return false
		}
	}
	l.proxy.add(l.proxy.answered, r.command)
	return true
}

// cut ends both connections by a reset, as a broken network does.
func (l *link) cut() {
	l.close(reset)
}

func (l *link) close(how func(net.Conn) error) {
	l.once.Do(func() {
		close(l.gone)
		how(l.client)
		how(l.server)
	})
}

func reset(conn net.Conn) error {
	if tcp, ok := conn.(*net.TCPConn); ok {
		tcp.SetLinger(0) // nothing that is still unsent is delivered
	}
	return conn.Close()
}
