package middleware

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
)

// ByIP charges to the client's address, as [Proxies.ClientIP] finds it. nil
// trusts nobody: the client is who opened the connection.
//
// IPv6 clients are charged by their /64: one customer has at least that many
// addresses, and could use a new one for every request. Use [ByNetwork] for
// another width.
//
// If nobody is trusted and X-Forwarded-For arrives nevertheless, that is logged
// once: probably a proxy is in front and all its clients share one limit.
func ByIP(trusted Proxies) KeyFunc {
	if len(trusted) == 0 {
		return warnOfProxy(ByNetwork(trusted.ClientIP, 32, 64))
	}
	return ByNetwork(trusted.ClientIP, 32, 64)
}

// ByNetwork charges to the network that the client is in: the first bits4 bits
// of an IPv4 address (1 to 32), the first bits6 of an IPv6 address (1 to 128).
// It panics if they are out of range or client is nil.
//
// client finds the address; [Proxies.ClientIP] does, and so can another
// middleware, such as chi's:
//
//	ByNetwork(func(r *http.Request) (netip.Addr, error) {
//		return chimiddleware.GetClientIPAddr(r.Context()), nil
//	}, 32, 64)
//
// An invalid address without an error is an error.
func ByNetwork(client func(*http.Request) (netip.Addr, error), bits4, bits6 int) KeyFunc {
	switch {
	case client == nil:
		panic("middleware: ByNetwork: client is nil")
	case bits4 < 1 || bits4 > 32:
		panic(fmt.Sprintf("middleware: ByNetwork: bits4 is %d, must be 1 to 32", bits4))
	case bits6 < 1 || bits6 > 128:
		panic(fmt.Sprintf("middleware: ByNetwork: bits6 is %d, must be 1 to 128", bits6))
	}
	return func(r *http.Request) (string, error) {
		addr, err := client(r)
		if err != nil {
			return "", err
		}
		if !addr.IsValid() {
			return "", fmt.Errorf("middleware: ByNetwork: the client's address is not known")
		}
		addr = addr.Unmap().WithZone("")
		bits := bits6
		if addr.Is4() {
			bits = bits4
		}
		if bits == addr.BitLen() {
			return textOf(addr, r), nil
		}
		var buffer [64]byte
		network, err := addr.Prefix(bits)
		return string(network.AppendTo(buffer[:0])), err
	}
}

// textOf is addr.String() without an allocation where the request has the same
// text already. It is cut only from short strings, because a limiter may keep
// the key, and the whole string with it, for long.
func textOf(addr netip.Addr, r *http.Request) string {
	var buffer [64]byte
	text := addr.AppendTo(buffer[:0])
	if remote := r.RemoteAddr; len(remote) > len(text) && remote[len(text)] == ':' && remote[:len(text)] == string(text) {
		return remote[:len(text)]
	}
	if lines := r.Header[forwardedFor]; len(lines) > 0 {
		last := lines[len(lines)-1]
		if len(last) <= cap(buffer) && strings.HasSuffix(last, string(text)) {
			return last[len(last)-len(text):]
		}
	}
	return string(text)
}

// warnOfProxy logs once that there seems to be a proxy that nobody trusts.
func warnOfProxy(key KeyFunc) KeyFunc {
	var warned atomic.Bool
	return func(r *http.Request) (string, error) {
		if !warned.Load() && len(r.Header[forwardedFor]) > 0 && warned.CompareAndSwap(false, true) {
			slog.WarnContext(r.Context(), "redislimiter: X-Forwarded-For arrives, but ByIP trusts no proxy: "+
				"if one is in front, all its clients share one limit (see middleware.Proxies)")
		}
		return key(r)
	}
}
