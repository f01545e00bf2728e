package middleware

import (
	"net/netip"
	"strings"
)

// forwardedEntry is the cutter of the Forwarded header (RFC 7239), whose
// entries look like
//
//	for="[2001:db8::1]:4711";proto=https;by=203.0.113.43
//
// It reads from the right, so that what a proxy has appended is understood
// without regard to what stands before it: read from the left, a quote that
// the client has opened would swallow the proxy's entry. No backslash occurs
// in an address, and none is accepted anywhere, since what it escapes could
// only be told from the left.
func forwardedEntry(line string) (rest string, addr netip.Addr, more, ok bool) {
	entry, rest, more, closed := cutLast(line, ',')
	if !closed || strings.IndexByte(entry, '\\') >= 0 {
		return "", netip.Addr{}, false, false
	}
	addr, ok = forOf(entry)
	return rest, addr, more, ok
}

// cutLast cuts off what stands behind the last separator outside quotes.
// closed tells whether every quote in it has its partner.
func cutLast(line string, separator byte) (last, rest string, more, closed bool) {
	quoted := false
	for i := len(line) - 1; i >= 0; i-- {
		switch c := line[i]; {
		case c == '"':
			quoted = !quoted
		case c == separator && !quoted:
			return line[i+1:], line[:i], true, true
		}
	}
	return line, "", false, !quoted
}

// forOf is the address of the "for" parameter of an entry, which has to be
// there once. "unknown" and obfuscated names ("_x") are no addresses.
func forOf(entry string) (addr netip.Addr, ok bool) {
	found := false
	for more := true; more; {
		var pair string
		pair, entry, more, _ = cutLast(entry, ';')
		name, value, _ := strings.Cut(strings.Trim(pair, " \t"), "=")
		if !strings.EqualFold(name, "for") {
			continue
		}
		if found {
			return netip.Addr{}, false
		}
		found = true
		addr, ok = parseNode(value)
	}
	return addr, ok
}

// parseNode reads the value of "for": an address, in quotes if it has a colon.
func parseNode(value string) (netip.Addr, bool) {
	if len(value) >= 2 && value[0] == '"' && value[len(value)-1] == '"' {
		value = value[1 : len(value)-1]
	}
	if strings.IndexByte(value, '"') >= 0 {
		return netip.Addr{}, false
	}
	return parseAddr(value)
}
