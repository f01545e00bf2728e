package integration_test

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

const (
	aclUser     = "limiter"
	aclPassword = "secret"
)

// A user who may do only what docs/operations.md lists is enough. Without any one of the commands that its script runs, or
// without EVALSHA, callers are told that it is a matter of configuration, nothing is charged behind their backs, and
// no key stays for ever.
func TestEachMissingPermissionIsToldApart(t *testing.T) {
	onEach(t, func(t *testing.T, kind servers.Kind) {
		admin := dial(t, servers.Start(t, kind).Addr)
		eachAlgorithm(t, func(t *testing.T, a limitertest.Algorithm) {
			used := slices.Sorted(maps.Keys(callsOf(t, admin, func() {
				useUp(t, newLimiter(t, admin, lasting(t, a, 3)), "k", 3)
			})))
			t.Logf("the script runs %s", strings.Join(used, ", "))
			permit(t, admin, documentedCommands(t))
			l := newLimiter(t, login(t, admin), lasting(t, a, 3))
			if err := l.Check(t.Context()); err != nil {
				t.Fatalf("Check with what is needed: %v", err)
			}
			useUp(t, l, "k", 3)
			for _, missing := range append(used, "evalsha") {
				t.Run(missing, func(t *testing.T) { withoutPermission(t, admin, a, missing) })
			}
		})
	})
}

// useUp charges all of a key's n units one by one, and is refused once.
func useUp(t *testing.T, l *rl.Limiter, key string, n int) {
	t.Helper()
	for range n {
		allow(t, l, key, 1, true)
	}
	allow(t, l, key, 1, false)
}

func withoutPermission(t *testing.T, admin *redis.Client, a limitertest.Algorithm, missing string) {
	permit(t, admin, slices.DeleteFunc(documentedCommands(t), func(c string) bool { return c == missing }))
	look := newLimiter(t, admin, lasting(t, a, 3))
	l := named(t, login(t, admin), look.Name(), look.Limits()...)
	if err := l.Check(t.Context()); !errors.Is(err, rl.ErrMisconfigured) {
		t.Errorf("Check: %v, want an ErrMisconfigured", err)
	}
	failures := 0
	for range 3 {
		before := remaining(t, look, "k")
		r, err := l.Allow(t.Context(), "k")
		if err == nil && r.Allowed {
			continue // not needed for this one
		}
		failures++
		if !errors.Is(err, rl.ErrMisconfigured) || !errors.Is(err, rl.ErrUnavailable) {
			t.Errorf("allowed %v, %v; want an ErrMisconfigured", r.Allowed, err)
		}
		if left := remaining(t, look, "k"); left != before && !errors.Is(err, rl.ErrUncertain) {
			t.Errorf("charged %d, and %v", before-left, err)
		}
	}
	if failures == 0 {
		t.Error("it was not missed")
	}
	wantExpiry(t, admin, l.Name())
}

// permit makes the user, who may do nothing else.
func permit(t *testing.T, admin *redis.Client, commands []string) {
	t.Helper()
	rules := []string{"reset", "on", ">" + aclPassword, "~rl:*"}
	for _, command := range commands {
		rules = append(rules, "+"+command)
	}
	if err := admin.ACLSetUser(t.Context(), aclUser, rules...).Err(); err != nil {
		t.Fatalf("ACL SETUSER %s: %v", rules, err)
	}
}

func login(t *testing.T, admin *redis.Client) *redis.Client {
	t.Helper()
	return dialWith(t, &redis.Options{Addr: admin.Options().Addr, Username: aclUser, Password: aclPassword})
}

// A wrong password, and none where one is needed.
func TestWrongPasswordIsToldApart(t *testing.T) {
	onEach(t, func(t *testing.T, kind servers.Kind) {
		addr := servers.Start(t, kind, "--requirepass", aclPassword).Addr
		right := dialWith(t, &redis.Options{Addr: addr, Password: aclPassword})
		for name, password := range map[string]string{"wrong": "guessed", "none": ""} {
			t.Run(name, func(t *testing.T) {
				l := newLimiter(t, dialWith(t, &redis.Options{Addr: addr, Password: password}), everyAlgorithm(t, 3)...)
				l.Timeout = time.Second
				heard := 0
				f := &rl.Fallback{Primary: l, Secondary: rl.Closed, OnError: func(err error) {
					if heard++; !errors.Is(err, rl.ErrMisconfigured) || errors.Is(err, rl.ErrUncertain) {
						t.Errorf("OnError: %v, want a certain ErrMisconfigured", err)
					}
					if strings.Contains(err.Error(), "guessed") {
						t.Errorf("the password is in the text: %v", err)
					}
				}}
				if r := allow(t, f, "k", 1, false); r.Source != rl.SourceClosed || heard != 1 {
					t.Errorf("decided by %v, OnError was called %d times", r.Source, heard)
				}
				if err := l.Check(t.Context()); !errors.Is(err, rl.ErrMisconfigured) {
					t.Errorf("Check: %v, want an ErrMisconfigured", err)
				}
				if n := wantExpiry(t, right, l.Name()); n != 0 {
					t.Errorf("%d keys", n)
				}
			})
		}
		allow(t, newLimiter(t, right, everyAlgorithm(t, 3)...), "k", 1, true)
	})
}
