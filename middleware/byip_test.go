package middleware_test

import (
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"

	"github.com/redislimiter/go-redislimiter/middleware"
)

// One client is one key, and another client is another.
func TestByIPGroups(t *testing.T) {
	ten := parse(t, "10.0.0.0/8")
	tests := []struct {
		name string
		a, b *http.Request
		same bool
	}{
		{"IPv4 as IPv6", from("203.0.113.9:1"), from("[::ffff:203.0.113.9]:2"), true},
		{"two IPv4 clients", from("203.0.113.9:1"), from("203.0.113.8:1"), false},
		{"one /64", from("[2001:db8:1:2::1]:1"), from("[2001:db8:1:2::ffff]:1"), true},
		{"two /64", from("[2001:db8:1:2::1]:1"), from("[2001:db8:1:3::1]:1"), false},
		{"zones", from("[fe80::1%eth0]:1"), from("[fe80::1%eth1]:1"), true},
		{"direct and through a proxy", from("198.51.100.7:1"), from("10.0.0.2:1", xff, "6.6.6.6, 198.51.100.7"), true},
		{"two clients of a proxy", from("10.0.0.2:1", xff, "198.51.100.7"), from("10.0.0.2:1", xff, "198.51.100.8"), false},
		{"with and without port", from("10.0.0.2:1", xff, "198.51.100.7:80"), from("10.0.0.2:1", xff, "198.51.100.7"), true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			a, errA := middleware.ByIP(ten)(test.a)
			b, errB := middleware.ByIP(ten)(test.b)
			if errA != nil || errB != nil || a == "" || b == "" {
				t.Fatalf("%q %v, %q %v", a, errA, b, errB)
			}
			if (a == b) != test.same {
				t.Errorf("keys %q and %q", a, b)
			}
		})
	}
}

// What the keys look like is part of the format in Redis.
func TestByNetwork(t *testing.T) {
	client := middleware.Proxies(nil).ClientIP
	tests := []struct {
		peer  string
		bits4 int
		bits6 int
		want  string
	}{
		{"203.0.113.9:1", 32, 64, "203.0.113.9"},
		{"203.0.113.9:1", 24, 64, "203.0.113.0/24"},
		{"[2001:db8:1:2::9]:1", 32, 64, "2001:db8:1:2::/64"},
		{"[2001:db8:1:2::9]:1", 32, 48, "2001:db8:1::/48"},
		{"[2001:db8:1:2::9]:1", 32, 128, "2001:db8:1:2::9"},
		{"[::ffff:203.0.113.9]:1", 24, 128, "203.0.113.0/24"},
	}
	for _, test := range tests {
		key, err := middleware.ByNetwork(client, test.bits4, test.bits6)(from(test.peer))
		if err != nil || key != test.want {
			t.Errorf("%s by /%d and /%d: %q, %v, want %q", test.peer, test.bits4, test.bits6, key, err, test.want)
		}
	}
	unknown := func(*http.Request) (netip.Addr, error) { return netip.Addr{}, nil }
	if key, err := middleware.ByNetwork(unknown, 32, 64)(from("203.0.113.9:1")); err == nil || key != "" {
		t.Errorf("no address: key %q, error %v", key, err)
	}
	fails := errors.New("fails")
	failing := func(*http.Request) (netip.Addr, error) { return netip.Addr{}, fails }
	if _, err := middleware.ByNetwork(failing, 32, 64)(from("203.0.113.9:1")); !errors.Is(err, fails) {
		t.Errorf("error %v", err)
	}
	mustPanic(t, "client is nil", func() { middleware.ByNetwork(nil, 32, 64) })
	mustPanic(t, "bits4 is 0", func() { middleware.ByNetwork(client, 0, 64) })
	mustPanic(t, "bits6 is 129", func() { middleware.ByNetwork(client, 32, 129) })
}

// A limiter may keep a key for long, and must not keep a long header with it.
func TestByIPKeysHoldNoLongHeaders(t *testing.T) {
	ten := parse(t, "10.0.0.0/8")
	short := from("10.0.0.2:1", xff, "6.6.6.6, 198.51.100.7")
	long := from("10.0.0.2:1", xff, strings.Repeat("6.6.6.6, ", 1000)+"198.51.100.7")
	key := middleware.ByIP(ten)
	for _, test := range []struct {
		r      *http.Request
		allocs float64
	}{{short, 0}, {long, 1}} {
		if n := testing.AllocsPerRun(100, func() { key(test.r) }); n != test.allocs {
			t.Errorf("%v allocations, want %v", n, test.allocs)
		}
	}
}
