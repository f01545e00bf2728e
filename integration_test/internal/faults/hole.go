package faults

import (
	"errors"
	"net"
	"syscall"
	"time"
)

// A hole is a listener that the kernel drops connections for, because nobody accepts them and its queue is full: to who
// dials, a host that does not answer. That is how Linux treats a full queue; elsewhere dials may be refused.
type hole struct {
	listener *net.TCPListener
	queue    []net.Conn
}

const (
	silence   = 50 * time.Millisecond // after which a dial on the loopback interface will not be answered
	longQueue = 128
)

// dig stops accepting and fills the queue.
func dig(l net.Listener) (*hole, error) {
	h := &hole{listener: l.(*net.TCPListener)}
	if err := errors.Join(h.listener.SetDeadline(time.Now()), h.queueOf(0)); err != nil {
		return h, err
	}
	for range longQueue {
		conn, err := net.DialTimeout("tcp", l.Addr().String(), silence)
		if err != nil {
			return h, nil // dropped, as all that follow
		}
		h.queue = append(h.queue, conn)
	}
	return h, errors.New("the queue of the listener does not fill")
}

// fill makes it an ordinary listener again.
func (h *hole) fill() {
	for _, conn := range h.queue {
		conn.Close()
	}
	_ = h.queueOf(longQueue) // as it had been possible before
	_ = h.listener.SetDeadline(time.Time{})
}

// queueOf sets how many connections may wait to be accepted.
func (h *hole) queueOf(n int) error {
	raw, err := h.listener.SyscallConn()
	if err != nil {
		return err
	}
	var listen error
	err = raw.Control(func(fd uintptr) { listen = syscall.Listen(int(fd), n) })
	return errors.Join(err, listen)
}
