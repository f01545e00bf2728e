package middleware_test

import (
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dunglas/httpsfv"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// Whatever a client writes into X-Forwarded-For, a proxy that appends its
// address, to the same line or in a new one, is believed and the client is not.
func FuzzForwardedFor(f *testing.F) {
	for _, claim := range []string{"", "6.6.6.6", "10.0.0.1", "6.6.6.6, ", "unknown", `"`, "[::1", "::ffff:10.0.0.1", "10.0.0.1,10.0.0.2"} {
		f.Add(claim)
	}
	ten := parse(f, "10.0.0.0/8")
	proxies := []middleware.Proxies{ten, middleware.UnverifiedHops(2), append(parse(f, "192.0.2.0/24").Header("CF-Connecting-IP"), ten...)}
	f.Fuzz(func(t *testing.T, claim string) {
		for _, lines := range [][]string{
			{claim + ", 198.51.100.7, 10.0.0.9"}, {claim, "198.51.100.7, 10.0.0.9"}, {claim + ",198.51.100.7", "10.0.0.9"},
		} {
			r := &http.Request{RemoteAddr: "10.0.0.2:1", Header: http.Header{xff: lines}}
			for i, p := range proxies {
				if addr, err := p.ClientIP(r); err != nil || addr.String() != "198.51.100.7" {
					t.Errorf("proxies %d: %q is %v, %v", i, lines, addr, err)
				}
			}
			r.RemoteAddr = "203.0.113.9:1"
			if addr, err := ten.ClientIP(r); err != nil || addr.String() != "203.0.113.9" {
				t.Errorf("not from a proxy: %v, %v", addr, err)
			}
		}
	})
}

// The same for Forwarded, where a client can also play with quotes.
func FuzzForwarded(f *testing.F) {
	for _, claim := range []string{"", "for=6.6.6.6", `for="6.6.6.6`, `for="\"`, `for="\`, "for=10.0.0.1", `host="a,b";for=6.6.6.6`, ";", "for"} {
		f.Add(claim)
	}
	ten := parse(f, "10.0.0.0/8").Forwarded()
	f.Fuzz(func(t *testing.T, claim string) {
		for _, lines := range [][]string{
			{claim + `, for=198.51.100.7;proto=https, for="10.0.0.9:80"`},
			{claim, `host="a,b;c";for=198.51.100.7, for=10.0.0.9`},
		} {
			r := &http.Request{RemoteAddr: "10.0.0.2:1", Header: http.Header{"Forwarded": lines}}
			if addr, err := ten.ClientIP(r); err != nil || addr.String() != "198.51.100.7" {
				t.Errorf("%q is %v, %v", lines, addr, err)
			}
		}
	})
}

// Whatever all headers hold: no panic, either an error or a plain address, and
// that is the peer's or one that the headers name. For X-Forwarded-For it is
// what splitting the whole list at its commas gives.
func FuzzClientIP(f *testing.F) {
	f.Add("10.0.0.2:1", "6.6.6.6, 10.0.0.1", "198.51.100.7")
	f.Add("[fe80::1%eth0]:1", "", `for="[2001:db8::1]:80";by=_x`)
	f.Add("@", "198.51.100.7:80", "for=unknown")
	f.Add("", "::ffff:10.0.0.1, [::1]", `for="`)
	ten := parse(f, "10.0.0.0/8", "unix", "::1")
	f.Fuzz(func(t *testing.T, peer, first, second string) {
		list := []string{first, second}
		r := &http.Request{RemoteAddr: peer, Header: http.Header{xff: list, "Forwarded": list, "X-Real-Ip": {second}}}
		for i, p := range []middleware.Proxies{nil, ten, ten.Forwarded(), ten.Header("X-Real-IP"), middleware.UnverifiedHops(1), middleware.UnverifiedHops(3)} {
			addr, err := p.ClientIP(r)
			if err != nil {
				if addr.IsValid() {
					t.Errorf("proxies %d: %v together with %v", i, addr, err)
				}
				continue
			}
			if !addr.IsValid() || addr.Zone() != "" || addr.Is4In6() || addr.IsUnspecified() {
				t.Errorf("proxies %d: %v", i, addr)
			}
			if key, err := middleware.ByIP(p)(r); err != nil || key == "" {
				t.Errorf("proxies %d: key %q, %v", i, key, err)
			}
		}
		if want, ok := bySplitting(peer, first+","+second); ok {
			if addr, err := ten.ClientIP(r); err != nil || addr != want {
				t.Errorf("%q: %v, %v, want %v", list, addr, err, want)
			}
		}
	})
}

// bySplitting is the slow and obvious way, for lists of plain addresses.
func bySplitting(peer, list string) (netip.Addr, bool) {
	if from, err := netip.ParseAddrPort(peer); err != nil || !netip.MustParsePrefix("10.0.0.0/8").Contains(from.Addr()) {
		return netip.Addr{}, false
	}
	var addr netip.Addr
	for _, entry := range slices.Backward(strings.Split(list, ",")) {
		var err error
		addr, err = netip.ParseAddr(strings.Trim(entry, " \t"))
		if err != nil || addr.Is6() || addr.IsUnspecified() {
			return netip.Addr{}, false
		}
		if !netip.MustParsePrefix("10.0.0.0/8").Contains(addr) {
			break
		}
	}
	return addr, true
}

// Joins are alike only if their parts are.
func FuzzJoin(f *testing.F) {
	f.Add("a:b", "c", "a", "b:c")
	f.Add("a|b", "c", "a", "b|c")
	f.Add(`a\`, "|b", `a`, `\|b`)
	f.Add(`a\|`, "b", `a`, `|b`)
	f.Fuzz(func(t *testing.T, a, b, c, d string) {
		if a == "" || b == "" || c == "" || d == "" {
			return // no key is empty
		}
		joins := [][]string{{a, b}, {c, d}, {a}, {a + b}, {a + "|" + b}, {b, a}, {a, b, c}, {a, b + c}, {a + b, c}}
		for i, one := range joins {
			for _, other := range joins[:i] {
				if joined(t, one) == joined(t, other) && !slices.Equal(one, other) {
					t.Errorf("%q and %q are both %q", one, other, joined(t, one))
				}
			}
		}
	})
}

// What the IETF fields say can be parsed, whatever a result holds, and means
// what it should.
func FuzzHeaders(f *testing.F) {
	f.Add("login", 5, int64(time.Minute), 4, int64(37*time.Second), int64(0), true)
	f.Add(`"\;,`, -1, int64(-1), -2, int64(-1), int64(1), false)
	f.Add("\x00\xff\u00e9", 1<<62, int64(1<<62), 1<<62, int64(1<<63-1), int64(1<<63-1), false)
	f.Fuzz(func(t *testing.T, name string, rate int, per int64, remaining int, reset, retry int64, allowed bool) {
		limit := redislimiter.SlidingWindowLog(rate, time.Duration(per))
		r := redislimiter.Result{
			Allowed: allowed, Name: name, Limit: limit, Limits: []redislimiter.Limit{redislimiter.GCRA(rate, time.Duration(per), 1), limit},
			Remaining: remaining, RetryAfter: time.Duration(retry), ResetAfter: time.Duration(reset),
		}
		h := http.Header{}
		middleware.RateLimitFields(h, r)
		policies, err := httpsfv.UnmarshalList(h["Ratelimit-Policy"])
		limits, err2 := httpsfv.UnmarshalList(h["Ratelimit"])
		if err != nil || err2 != nil {
			t.Fatalf("%v, %v: %q", err, err2, h)
		}
		if name == "" {
			if len(h) != 0 {
				t.Errorf("headers without a name: %q", h)
			}
			return
		}
		if len(policies) != 2 || len(limits) != 1 || policies[1].(httpsfv.Item).Value != limits[0].(httpsfv.Item).Value {
			t.Fatalf("headers %q", h)
		}
		item := limits[0].(httpsfv.Item)
		left, _ := item.Params.Get("r")
		seconds, _ := item.Params.Get("t")
		if left != min(max(int64(remaining), 0), 999_999_999_999_999) || seconds.(int64) < 0 {
			t.Errorf("r=%v t=%v for %+v", left, seconds, r)
		}
		if !allowed && seconds.(int64) < 1 {
			t.Errorf("refused, and t=%v", seconds)
		}
	})
}
