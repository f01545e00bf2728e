package middleware_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A site has a login that the recipe protects, with one account, bob.
type site struct {
	t *testing.T
	h http.Handler
}

// newSite uses Redis in virtual time.
func newSite(t *testing.T) (s *site, keys func() string) {
	server, rdb := limitertest.Redis(t)
	address, err := redislimiter.New(rdb, "login-address", perAddress...)
	if err != nil {
		t.Fatal(err)
	}
	account, err := redislimiter.New(rdb, "login-account", perAccount...)
	if err != nil {
		t.Fatal(err)
	}
	login := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if who, _ := accountOf(r); who != "bob@example.com" || r.PostFormValue("password") != "right" {
			http.Error(w, "e-mail or password is wrong", http.StatusUnauthorized)
		}
	})
	s = &site{t, protectLogin(address, account, []byte("secret"), parse(t, "10.0.0.0/8"), login)}
	return s, func() string { return strings.Join(server.Keys(), "\n") }
}

// try is one attempt; it returns all that the client sees.
func (s *site) try(address, account, password string) (status int, seen string) {
	form := url.Values{"email": {account}, "password": {password}}
	r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	r.RemoteAddr = "10.0.0.2:1"
	r.Header.Set(xff, address)
	resp := serve(s.h, r)
	body, _ := io.ReadAll(resp.Body)
	return resp.StatusCode, fmt.Sprint(resp.Status, resp.Header, string(body))
}

// many is attempts in a row that should all be answered the same.
func (s *site) many(n int, address, account, password string, want int) {
	s.t.Helper()
	for i := range n {
		if status, _ := s.try(address, account, password); status != want {
			s.t.Errorf("%s as %s with %s, attempt %d: %d, want %d", address, account, password, i, status, want)
		}
	}
}

const (
	attacker = "203.0.113.9"
	home     = "198.51.100.7"
	bob      = "bob@example.com"
)

func TestLogin(t *testing.T) {
	tests := []struct {
		name string
		do   func(*site)
	}{
		{"the right password costs nothing", func(s *site) {
			s.many(50, home, bob, "right", 200)
		}},
		{"one account, many passwords: five, then not even the right one", func(s *site) {
			s.many(5, attacker, bob, "wrong", 401)
			s.many(1, attacker, bob, "right", 429)
			s.many(1, home, bob, "right", 429)
			time.Sleep(15 * time.Minute)
			s.many(1, home, bob, "right", 200)
		}},
		{"the account is one, however it is spelled", func(s *site) {
			s.many(3, attacker, bob, "wrong", 401)
			s.many(2, attacker, " BOB@example.com ", "wrong", 401)
			s.many(1, attacker, "Bob@Example.com", "wrong", 429)
		}},
		{"many addresses do not help against one account", func(s *site) {
			for i := range 5 {
				s.many(1, fmt.Sprintf("203.0.113.%d", i+1), bob, "wrong", 401)
			}
			s.many(1, "203.0.113.99", bob, "wrong", 429)
		}},
		{"many accounts, one address: thirty, then none", func(s *site) {
			for i := range 30 {
				s.many(1, attacker, fmt.Sprintf("user%d@example.com", i), "123456", 401)
			}
			s.many(1, attacker, "user99@example.com", "123456", 429)
			s.many(1, home, bob, "right", 200)
		}},
		{"what one limit refuses costs nothing at the other", func(s *site) {
			s.many(5, attacker, bob, "wrong", 401)
			s.many(9, attacker, bob, "wrong", 429)
			for i := range 25 { // thirty failures in all
				s.many(1, attacker, fmt.Sprintf("user%d@example.com", i), "123456", 401)
			}
			s.many(1, attacker, "user99@example.com", "123456", 429)
		}},
		{"who goes on is blocked, also when the window has passed", func(s *site) {
			s.many(5, attacker, bob, "wrong", 401)
			time.Sleep(14 * time.Minute)
			s.many(10, attacker, bob, "wrong", 429)
			time.Sleep(14 * time.Minute) // the failures are forgotten, the block is not
			s.many(1, home, bob, "right", 429)
			time.Sleep(2 * time.Minute)
			s.many(1, home, bob, "right", 200)
		}},
		{"no account at all", func(s *site) {
			s.many(1, attacker, " ", "wrong", 400)
		}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s, _ := newSite(t)
				test.do(s)
			})
		})
	}
}

// An attacker cannot tell an account that exists from one that does not, nor
// read from an answer whether others have tried.
func TestLoginHidesAccounts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _ := newSite(t)
		for i := range 20 {
			_, known := s.try(attacker, bob, "wrong")
			_, unknown := s.try("203.0.113.8", "nobody@example.com", "wrong")
			if known != unknown {
				t.Fatalf("attempt %d:\n%s\n%s", i, known, unknown)
			}
		}
		_, others := s.try(home, "alice@example.com", "wrong")
		if strings.Contains(others, "Ratelimit") {
			t.Errorf("headers tell what is left: %s", others)
		}
	})
}

// Neither addresses nor accounts can be read in Redis.
func TestLoginKeysAreHashed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, keys := newSite(t)
		s.many(5, attacker, bob, "wrong", 401)
		all := keys()
		if !strings.Contains(all, "rl:login-address:") || !strings.Contains(all, "rl:login-account:") {
			t.Errorf("keys\n%s", all)
		}
		for _, secret := range []string{"bob", "203.0.113"} {
			if strings.Contains(all, secret) {
				t.Errorf("%q is in\n%s", secret, all)
			}
		}
	})
}
