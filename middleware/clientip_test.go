package middleware_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/redislimiter/go-redislimiter/middleware"
)

const xff = "X-Forwarded-For"

// Who the client is, by whom we trust, who connects, and what is claimed.
func TestClientIP(t *testing.T) {
	ten := parse(t, "10.0.0.0/8", "fd00::/8")
	unix := parse(t, "unix", "10.0.0.0/8")
	cloud := append(parse(t, "192.0.2.0/24").Header("CF-Connecting-IP"), ten...)
	tests := []struct {
		name    string
		trusted middleware.Proxies
		peer    string
		headers []string
		want    string // an address, or part of an error
	}{
		{"nobody is trusted", nil, "203.0.113.9:4711", []string{xff, "6.6.6.6, 7.7.7.7"}, "203.0.113.9"},
		{"the peer is not trusted", ten, "203.0.113.9:4711", []string{xff, "6.6.6.6, 7.7.7.7"}, "203.0.113.9"},
		{"a forged entry before the real one", ten, "10.0.0.2:1", []string{xff, "6.6.6.6, 198.51.100.7, 10.0.0.9"}, "198.51.100.7"},
		{"the same in two lines", ten, "10.0.0.2:1", []string{xff, "6.6.6.6, 198.51.100.7", xff, "10.0.0.9"}, "198.51.100.7"},
		{"the line breaks elsewhere", ten, "10.0.0.2:1", []string{xff, "6.6.6.6", xff, "198.51.100.7,10.0.0.9"}, "198.51.100.7"},
		{"all are trusted", ten, "10.0.0.2:1", []string{xff, "10.0.0.8, 10.0.0.9"}, "10.0.0.8"},
		{"a trusted peer speaks for itself", ten, "10.0.0.2:1", nil, "10.0.0.2"},

		{"garbage before the client is not looked at", ten, "10.0.0.2:1", []string{xff, "<script>, 198.51.100.7"}, "198.51.100.7"},
		{"garbage from a proxy", ten, "10.0.0.2:1", []string{xff, "198.51.100.7, unknown"}, "not an address"},
		{"an empty entry hides who wrote it", ten, "10.0.0.2:1", []string{xff, "6.6.6.6, "}, "not an address"},
		{"an empty line", ten, "10.0.0.2:1", []string{xff, ""}, "not an address"},
		{"the unspecified address", ten, "10.0.0.2:1", []string{xff, "0.0.0.0"}, "not an address"},
		{"a leading zero is octal to some", ten, "10.0.0.2:1", []string{xff, "198.051.100.7"}, "not an address"},

		{"IPv4 as IPv6", nil, "[::ffff:203.0.113.9]:1", nil, "203.0.113.9"},
		{"a trusted proxy as IPv6", ten, "[::ffff:10.0.0.2]:1", []string{xff, "::ffff:198.51.100.7"}, "198.51.100.7"},
		{"a claimed proxy as IPv6", ten, "10.0.0.2:1", []string{xff, "198.51.100.7, ::ffff:10.0.0.9"}, "198.51.100.7"},
		{"a zone", nil, "[fe80::1%eth0]:1", nil, "fe80::1"},
		{"a zone does not hide a proxy", ten, "[fd00::1%eth0]:1", []string{xff, "198.51.100.7"}, "198.51.100.7"},
		{"a port", ten, "10.0.0.2:1", []string{xff, "198.51.100.7:5000"}, "198.51.100.7"},
		{"a port on IPv6", ten, "10.0.0.2:1", []string{xff, "[2001:db8::1]:5000"}, "2001:db8::1"},
		{"brackets without port", ten, "10.0.0.2:1", []string{xff, "[2001:db8::1]"}, "2001:db8::1"},
		{"no port on the peer", nil, "203.0.113.9", nil, "203.0.113.9"},
		{"spaces", ten, "10.0.0.2:1", []string{xff, "\t198.51.100.7 ,  10.0.0.9 "}, "198.51.100.7"},

		{"a unix socket", nil, "", nil, "no address"},
		{"a unix socket with a name", ten, "@", []string{xff, "6.6.6.6"}, "no address"},
		{"a trusted unix socket", unix, "@", []string{xff, "198.51.100.7"}, "198.51.100.7"},
		{"a trusted unix socket that says nothing", unix, "", nil, "names no client"},
		{"unix trusts no network peer", unix, "203.0.113.9:1", []string{xff, "6.6.6.6"}, "203.0.113.9"},
		{"a peer that is no address", nil, "localhost:80", nil, "cannot be parsed"},

		{"a header with one address", ten.Header("x-real-ip"), "10.0.0.2:1", []string{"X-Real-IP", "198.51.100.7", xff, "6.6.6.6"}, "198.51.100.7"},
		{"not from strangers", ten.Header("X-Real-IP"), "203.0.113.9:1", []string{"X-Real-IP", "6.6.6.6"}, "203.0.113.9"},
		{"nobody trusted, so no header either", middleware.Proxies(nil).Header("X-Real-IP"), "203.0.113.9:1", []string{"X-Real-IP", "6.6.6.6"}, "203.0.113.9"},
		{"it is missing", ten.Header("X-Real-IP"), "10.0.0.2:1", []string{xff, "6.6.6.6"}, "10.0.0.2"},
		{"it is missing on a unix socket", unix.Header("X-Real-IP"), "", nil, "names no client"},
		{"it is there twice", ten.Header("X-Real-IP"), "10.0.0.2:1", []string{"X-Real-IP", "6.6.6.6", "X-Real-IP", "198.51.100.7"}, "there twice"},
		{"it holds two", ten.Header("X-Real-IP"), "10.0.0.2:1", []string{"X-Real-IP", "6.6.6.6, 198.51.100.7"}, "not an address"},

		{"a CDN behind a balancer", cloud, "10.0.0.2:1", []string{xff, "6.6.6.6, 192.0.2.1", "CF-Connecting-IP", "198.51.100.7"}, "198.51.100.7"},
		{"around the CDN", cloud, "10.0.0.2:1", []string{xff, "203.0.113.9", "CF-Connecting-IP", "6.6.6.6"}, "203.0.113.9"},

		{"one hop", middleware.UnverifiedHops(1), "203.0.113.9:1", []string{xff, "6.6.6.6, 198.51.100.7"}, "198.51.100.7"},
		{"two hops", middleware.UnverifiedHops(2), "203.0.113.9:1", []string{xff, "6.6.6.6, 198.51.100.7, 10.0.0.9"}, "198.51.100.7"},
		{"two hops in two lines", middleware.UnverifiedHops(2), "203.0.113.9:1", []string{xff, "6.6.6.6, 198.51.100.7", xff, "10.0.0.9"}, "198.51.100.7"},
		{"fewer than there should be", middleware.UnverifiedHops(2), "203.0.113.9:1", []string{xff, "198.51.100.7"}, "fewer hops"},
		{"none at all", middleware.UnverifiedHops(1), "203.0.113.9:1", nil, "fewer hops"},
		{"hops are counted for strangers", append(middleware.UnverifiedHops(1), ten...), "203.0.113.9:1", []string{xff, "6.6.6.6, 198.51.100.7"}, "198.51.100.7"},
		{"and make no proxy of whom a proxy names", append(middleware.UnverifiedHops(1), ten...), "10.0.0.2:1", []string{xff, "6.6.6.6, 198.51.100.7, 10.0.0.9"}, "198.51.100.7"},
		{"hops over a unix socket", middleware.UnverifiedHops(1), "@", []string{xff, "6.6.6.6, 198.51.100.7"}, "198.51.100.7"},
		{"what is counted is garbage", middleware.UnverifiedHops(1), "203.0.113.9:1", []string{xff, "198.51.100.7, x"}, "not an address"},
		{"what is counted over may be", middleware.UnverifiedHops(2), "203.0.113.9:1", []string{xff, "198.51.100.7, x"}, "198.51.100.7"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			addr, err := test.trusted.ClientIP(from(test.peer, test.headers...))
			switch {
			case err == nil && addr.String() != test.want:
				t.Errorf("the client is %v, want %s", addr, test.want)
			case err != nil && !strings.Contains(err.Error(), test.want):
				t.Errorf("error %q, want %s", err, test.want)
			case err != nil && addr.IsValid():
				t.Errorf("an address together with an error: %v", addr)
			}
		})
	}
}

func TestClientIPForwarded(t *testing.T) {
	ten := parse(t, "10.0.0.0/8").Forwarded()
	tests := []struct {
		name  string
		lines []string
		want  string // an address, or empty for ErrBadKey
	}{
		{"plain", []string{`for=198.51.100.7`}, "198.51.100.7"},
		{"all parameters", []string{`proto=https;For="198.51.100.7:4711";by=10.0.0.2;host=example.com`}, "198.51.100.7"},
		{"IPv6", []string{`for="[2001:db8::1]:4711"`}, "2001:db8::1"},
		{"IPv6 without port", []string{`for="[2001:db8::1]"`}, "2001:db8::1"},
		{"two hops", []string{`for=6.6.6.6, for=198.51.100.7, for=10.0.0.9`}, "198.51.100.7"},
		{"two lines", []string{`for=6.6.6.6, for=198.51.100.7`, `for=10.0.0.9;proto=http`}, "198.51.100.7"},
		{"a separator in quotes", []string{`for=6.6.6.6, host="a,b;for=7.7.7.7";for=198.51.100.7`}, "198.51.100.7"},
		{"a quote that the client has left open", []string{`for="6.6.6.6, for=198.51.100.7`}, "198.51.100.7"},
		{"escapes of the client", []string{`for="\"", for=198.51.100.7`}, "198.51.100.7"},
		{"unknown", []string{`for=198.51.100.7, for=unknown`}, ""},
		{"obfuscated", []string{`for=_hidden`}, ""},
		{"no for", []string{`by=10.0.0.2`}, ""},
		{"for twice", []string{`for=6.6.6.6;for=198.51.100.7`}, ""},
		{"an open quote of the proxy", []string{`for=6.6.6.6, host=";for=198.51.100.7`}, ""},
		{"an escape of the proxy", []string{`host="a\"b";for=198.51.100.7`}, ""},
		{"a quote inside", []string{`for=198."51".100.7`}, ""},
		{"half a pair of quotes", []string{`for="`}, ""},
		{"empty", []string{``}, ""},
		{"none", nil, "10.0.0.2"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			r := from("10.0.0.2:1", xff, "6.6.6.6")
			r.Header["Forwarded"] = test.lines
			addr, err := ten.ClientIP(r)
			switch {
			case test.want == "" && !errors.Is(err, middleware.ErrBadKey):
				t.Errorf("%v and error %v, want an ErrBadKey", addr, err)
			case test.want != "" && (err != nil || addr.String() != test.want):
				t.Errorf("%v and error %v, want %s", addr, err, test.want)
			}
		})
	}
	if addr, err := ten.ClientIP(from("203.0.113.9:1", "Forwarded", "for=6.6.6.6")); err != nil || addr.String() != "203.0.113.9" {
		t.Errorf("a stranger's claim: %v, %v", addr, err)
	}
}

func TestParseProxies(t *testing.T) {
	tests := []struct {
		cidr string
		want string // part of the error; empty: accepted
	}{
		{"10.0.0.0/8", ""},
		{"fc00::/7", ""},
		{"192.0.2.1", ""},
		{"::1", ""},
		{"unix", ""},
		{"0.0.0.0/0", "trusts too much"},
		{"::/0", "trusts too much"},
		{"0.0.0.0/1", "trusts too much"},
		{"128.0.0.0/7", "trusts too much"},
		{"2000::/3", "trusts too much"},
		{"10.0.0.1/8", "is it 10.0.0.0/8?"},
		{"::ffff:10.0.0.0/104", "write it as IPv4"},
		{"::ffff:10.0.0.1", "write it as IPv4"},
		{"fe80::1%eth0", "zones"},
		{"", "not an address range"},
		{"10.0.0.0/33", "not an address range"},
		{"10.0.0.0/8, 127.0.0.1", "not an address range"},
		{"proxy.internal", "not an address range"},
	}
	for _, test := range tests {
		p, err := middleware.ParseProxies("127.0.0.1", test.cidr)
		switch {
		case test.want == "":
			if err != nil || len(p) != 2 {
				t.Errorf("%q: %v", test.cidr, err)
			}
		case err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), `"`+test.cidr+`"`):
			t.Errorf("%q: error %v, want %q", test.cidr, err, test.want)
		case p != nil:
			t.Errorf("%q: proxies together with an error", test.cidr)
		}
	}
	if p, err := middleware.ParseProxies(); err != nil || len(p) != 0 {
		t.Errorf("nobody: %v, %v", p, err)
	}
}

func TestProxiesRefuseWrongHeaders(t *testing.T) {
	p := parse(t, "10.0.0.0/8")
	for _, name := range []string{"", "x-forwarded-for", "Forwarded"} {
		mustPanic(t, "single address", func() { p.Header(name) })
	}
	mustPanic(t, "hops is 0", func() { middleware.UnverifiedHops(0) })
}

// Choosing a header makes new proxies and leaves the old ones as they are.
func TestProxiesAreValues(t *testing.T) {
	p := parse(t, "10.0.0.0/8")
	p.Header("X-Real-IP")
	p.Forwarded()
	r := from("10.0.0.2:1", xff, "198.51.100.7", "X-Real-IP", "6.6.6.6", "Forwarded", "for=6.6.6.6")
	if addr, err := p.ClientIP(r); err != nil || addr.String() != "198.51.100.7" {
		t.Errorf("%v, %v", addr, err)
	}
}

func TestClientIPDoesNotAllocate(t *testing.T) {
	p := parse(t, "10.0.0.0/8")
	for _, r := range []*http.Request{
		from("203.0.113.9:4711"),
		from("10.0.0.2:1", xff, "6.6.6.6, 198.51.100.7, 10.0.0.9"),
	} {
		if n := testing.AllocsPerRun(100, func() { p.ClientIP(r) }); n != 0 {
			t.Errorf("%v allocations", n)
		}
	}
}
