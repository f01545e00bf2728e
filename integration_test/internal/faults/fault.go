// Package faults is a proxy between a client and a server that goes wrong on demand, in one exact way at a time.
//
// It knows where a request and a reply begin and end, and which reply belongs to which request. So "the server ran
// this EVALSHA once, and the client never heard" is a fact that a test can rely on, not a matter of timing. That is
// why it is not Toxiproxy: its toxics see bytes. Its limit_data hits the reply of a new connection's HELLO before
// that of the EVALSHA, it cannot hit exactly one call, removing its stall (timeout) closes the connection, and it
// counts no requests. As a library it also brings an HTTP API and Prometheus with it.
package faults

import (
	"strings"
	"time"
)

// Kind is a way to go wrong.
type Kind int

// None is the zero value: everything passes.
const (
	None Kind = iota

	// LoseReply forwards the request and waits for the server's reply, so the server has run it. It then throws the
	// reply away and cuts the connection.
	LoseReply

	// LoseRequest cuts the connection and forwards nothing. To the client it looks as LoseReply does. For all
	// commands, and followed by CutAll, it is a server that can be dialled and does nothing but hang up.
	LoseRequest

	// DelayReply forwards the request at once, and the reply no earlier than Delay after the request came.
	DelayReply

	// Stall accepts connections and requests and holds them. When the fault ends they are forwarded in their order,
	// even if their client has gone, as a network that heals delivers them. CutAll throws them away.
	Stall

	// Refuse cuts every connection and stops listening: the dial fails.
	Refuse

	// BlackHole drops everything: a dial gets no answer at all, and requests on open connections are held as by Stall.
	BlackHole
)

// Fault says what goes wrong, for which requests and how often.
type Fault struct {
	Kind  Kind
	Delay time.Duration // of DelayReply

	// Command limits the fault to requests of one command, in any case: "evalsha". The rest passes; so a new
	// connection can say HELLO first. Empty means all. Refuse and BlackHole do not look at it.
	Command string

	// Times ends the fault after so many requests. 0 means that it stays until the next Set. Stall, Refuse and
	// BlackHole do not look at it.
	Times int
}

func (f Fault) concerns(command string) bool {
	return f.Command == "" || f.Kind == BlackHole || strings.EqualFold(f.Command, command)
}

// holds reports whether requests wait for the end of the fault.
func (f Fault) holds() bool { return f.Kind == Stall || f.Kind == BlackHole }
