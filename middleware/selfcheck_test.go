package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// What makes a limiter useless without anybody noticing is logged, once.
func TestSelfChecks(t *testing.T) {
	ten := parse(t, "10.0.0.0/8")
	peer := func(int) *http.Request { return from("203.0.113.9:1") }
	peers := func(i int) *http.Request { return from(fmt.Sprintf("203.0.113.%d:1", i%200)) }
	proxied := func(i int) *http.Request { return from("10.0.0.2:1", xff, fmt.Sprintf("203.0.113.%d", i%200)) }
	late := func(i int) *http.Request { return from(fmt.Sprintf("203.0.113.%d:1", max(i, 998)%200)) }
	const (
		proxy = "X-Forwarded-For arrives"
		same  = "all requests so far have the same key"
		fault = "the key function fails"
	)
	tests := []struct {
		name    string
		key     middleware.KeyFunc
		request func(int) *http.Request
		want    []string
	}{
		{"nothing is wrong", middleware.ByIP(ten), proxied, nil},
		{"nobody is trusted", middleware.ByIP(nil), proxied, []string{proxy, same}},
		{"an empty list trusts nobody", middleware.ByIP(middleware.Proxies{}), proxied, []string{proxy, same}},
		{"no proxy", middleware.ByIP(nil), peers, nil},
		{"one key for all", middleware.ByIP(nil), peer, []string{same}},
		{"one key for nearly all", middleware.ByIP(nil), late, nil},
		{"one key is meant", middleware.Const("k"), peer, nil},
		{"one route is meant", middleware.ByRoute, func(int) *http.Request { r := from("203.0.113.9:1"); r.Pattern = "/"; return r }, nil},
		{"no key", middleware.ByHeader("X-API-Key"), peer, nil},
		{"the server's fault", fixed("", errors.New("database")), peer, []string{fault}},
		{"an empty key", fixed("", nil), peer, []string{fault}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			log := logged(t)
			h := middleware.New(redislimiter.Open, test.key, nil)(new(reached))
			for i := range 2001 {
				serve(h, test.request(i))
			}
			if lines := strings.Count(log.String(), "\n"); lines != len(test.want) {
				t.Errorf("%d lines, want %d", lines, len(test.want))
			}
			for _, want := range test.want {
				if strings.Count(log.String(), want) != 1 {
					t.Errorf("%q is not there once", want)
				}
			}
			if strings.Contains(log.String(), "203.0.113") {
				t.Error("an address is in the log")
			}
			if t.Failed() {
				t.Log(log)
			}
		})
	}
}

// What a key function says about a client that has left is not the fault that is logged once.
func TestLeavingIsNoFaultOfTheKeyFunction(t *testing.T) {
	log := logged(t)
	h := middleware.New(redislimiter.Open, func(r *http.Request) (string, error) { return "", r.Context().Err() }, nil)(new(reached))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	serve(h, from("203.0.113.9:1").WithContext(ctx))
	if log.Len() != 0 {
		t.Errorf("logged %s", log)
	}
	serve(h, from("203.0.113.9:1"))
	if strings.Count(log.String(), "the key function fails") != 1 {
		t.Errorf("logged %q", log)
	}
}
