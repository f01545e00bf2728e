// Package ports picks TCP ports that can be given up and taken again.
//
// A listener on port 0 gets a port from the range that the system also uses for outgoing connections. While such a
// port is free, because its server is down on purpose, any connection of any process may be given it, and the server
// cannot come back. Ports below that range are only taken by whoever asks for them.
package ports

import (
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// The range lies below the outgoing ports of Linux (from 32768) and of macOS and Windows (from 49152).
const (
	first = 20000
	last  = 32767
)

// Listen listens on a random port of the loopback interface.
func Listen() (net.Listener, error) {
	var err error
	for range 50 {
		var l net.Listener
		port := first + rand.IntN(last-first+1)
		if l, err = net.Listen("tcp", net.JoinHostPort("127.0.0.1", strconv.Itoa(port))); err == nil {
			return l, nil
		}
	}
	return nil, fmt.Errorf("no free port between %d and %d: %w", first, last, err)
}

// Free returns a port on which nothing listened a moment ago. Somebody may take it before the caller does: try again
// with another one.
func Free() (int, error) {
	l, err := Listen()
	if err != nil {
		return 0, err
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port, nil
}
