package middleware

import (
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
)

const (
	forwardedFor = "X-Forwarded-For"
	forwarded    = "Forwarded"
)

var (
	errNoPeer   = errors.New("middleware: the connection has no address, and \"unix\" is not among the trusted proxies")
	errNoClaim  = fmt.Errorf("%w: the proxy on the unix socket names no client", ErrBadKey)
	errGarbage  = fmt.Errorf("%w: a trusted proxy's entry is not an address", ErrBadKey)
	errTwice    = fmt.Errorf("%w: the proxy's header is there twice", ErrBadKey)
	errCircle   = fmt.Errorf("%w: proxies name each other by different headers", ErrBadKey)
	errTooShort = fmt.Errorf("%w: fewer hops than there should be", ErrBadKey)
)

// ClientIP is the address of the client that the request came from, without
// zone, and as IPv4 if it is IPv4 in IPv6 form.
//
// It begins with the peer, who opened the connection. If the peer is a trusted
// proxy, it reads whom that proxy names: the last entry of all its header
// lines. If that is a trusted proxy too, it goes on to the entry before, until
// an address is not trusted, or the list ends. Nothing further left is looked
// at: the client can have made it up. A trusted proxy without the header speaks
// for itself. Where a proxy names another that is believed by another header, that
// header is read from there on, since the first proxy does not write it.
//
// An entry that is no address ends the walk with an [ErrBadKey], and so do proxies
// that name each other to and fro. A connection
// without an address (a unix socket) is an error unless "unix" is trusted.
func (p Proxies) ClientIP(r *http.Request) (netip.Addr, error) {
	peer, ok := peerOf(r.RemoteAddr)
	if !ok {
		return netip.Addr{}, fmt.Errorf("middleware: the peer's address %q cannot be parsed", r.RemoteAddr)
	}
	if known := p.find(peer); known != nil {
		return p.claimed(r, peer, known, maxSources)
	}
	if hops := p.hops(); hops > 0 {
		return countHops(r, hops)
	}
	if !peer.IsValid() {
		return netip.Addr{}, errNoPeer
	}
	return peer, nil
}

// maxSources is how many headers are read one after the other. A header that is read
// again ends as it did before: proxies which name each other to and fro are an error.
const maxSources = 3

// claimed follows what a trusted proxy says, by so many headers at most.
func (p Proxies) claimed(r *http.Request, from netip.Addr, known *proxy, sources int) (netip.Addr, error) {
	if sources == 0 {
		return netip.Addr{}, errCircle
	}
	switch known.how {
	case bySingle:
		addr, err := single(r.Header[known.header], from)
		if next := p.find(addr); err == nil && next != nil && !next.sameSource(known) {
			return p.claimed(r, addr, next, sources-1)
		}
		return addr, err
	case byForwarded:
		return p.walk(r, from, known, r.Header[forwarded], forwardedEntry, sources)
	default:
		return p.walk(r, from, known, r.Header[forwardedFor], lastEntry, sources)
	}
}

func (p *proxy) sameSource(other *proxy) bool { return p.how == other.how && p.header == other.header }

// walk goes through the list of a proxy from the right, as long as proxies are
// trusted and write that list. cut takes the last entry off a line.
func (p Proxies) walk(r *http.Request, from netip.Addr, writer *proxy, lines []string, cut cutter, sources int) (netip.Addr, error) {
	for i := len(lines) - 1; i >= 0; i-- {
		for line, more := lines[i], true; more; {
			var addr netip.Addr
			var ok bool
			if line, addr, more, ok = cut(line); !ok {
				return netip.Addr{}, errGarbage
			}
			known := p.find(addr)
			if known == nil {
				return addr, nil
			}
			if !known.sameSource(writer) {
				return p.claimed(r, addr, known, sources-1)
			}
			from = addr
		}
	}
	if !from.IsValid() {
		return netip.Addr{}, errNoClaim
	}
	return from, nil
}

// A cutter takes the last entry off a line of a list. more tells whether
// anything is left, and ok whether the entry is an address.
type cutter func(line string) (rest string, addr netip.Addr, more, ok bool)

// lastEntry is the cutter of X-Forwarded-For. An empty entry is no address: a
// proxy that does not know its peer may have written it, and what stands
// before it is then the client's invention.
func lastEntry(line string) (rest string, addr netip.Addr, more, ok bool) {
	i := strings.LastIndexByte(line, ',')
	addr, ok = parseAddr(line[i+1:])
	return line[:max(i, 0)], addr, i >= 0, ok
}

// countHops finds the entry that is so many from the right.
func countHops(r *http.Request, hops int) (netip.Addr, error) {
	lines := r.Header[forwardedFor]
	for i := len(lines) - 1; i >= 0; i-- {
		for line, more := lines[i], true; more; hops-- {
			var addr netip.Addr
			var ok bool
			line, addr, more, ok = lastEntry(line)
			switch {
			case hops == 1 && !ok:
				return netip.Addr{}, errGarbage
			case hops == 1:
				return addr, nil
			}
		}
	}
	return netip.Addr{}, errTooShort
}

// single reads a header that a proxy sets to one address. Without it, the
// proxy speaks for itself: a health check, say.
func single(values []string, from netip.Addr) (netip.Addr, error) {
	switch len(values) {
	case 0:
		if !from.IsValid() {
			return netip.Addr{}, errNoClaim
		}
		return from, nil
	case 1:
		if addr, ok := parseAddr(values[0]); ok {
			return addr, nil
		}
		return netip.Addr{}, errGarbage
	default: // one of them is not the proxy's
		return netip.Addr{}, errTwice
	}
}

// peerOf parses http.Request.RemoteAddr. The invalid address stands for a
// unix socket, whose peers have no name or that of a file.
func peerOf(remote string) (netip.Addr, bool) {
	if remote == "" || remote[0] == '@' || remote[0] == '/' {
		return netip.Addr{}, true
	}
	return parseAddr(remote)
}

// parseAddr reads an address with or without port, brackets and zone. Port and
// zone are not part of who it is. The unspecified address is nobody's.
func parseAddr(text string) (netip.Addr, bool) {
	text = strings.Trim(text, " \t")
	addr, ok := parsePlain(text)
	addr = addr.Unmap().WithZone("")
	return addr, ok && !addr.IsUnspecified()
}

func parsePlain(text string) (netip.Addr, bool) {
	colon := strings.IndexByte(text, ':')
	bracket := strings.HasPrefix(text, "[")
	switch {
	case bracket && strings.HasSuffix(text, "]"):
		addr, err := netip.ParseAddr(text[1 : len(text)-1])
		return addr, err == nil && addr.Is6()
	case bracket, colon >= 0 && strings.IndexByte(text[colon+1:], ':') < 0:
		both, err := netip.ParseAddrPort(text)
		return both.Addr(), err == nil
	default:
		addr, err := netip.ParseAddr(text)
		return addr, err == nil
	}
}
