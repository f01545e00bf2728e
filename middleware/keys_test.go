package middleware_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

type userKey struct{}

// with is a request whose context holds a user.
func with(user any) *http.Request {
	r := from("203.0.113.9:1")
	return r.WithContext(context.WithValue(r.Context(), userKey{}, user))
}

// fixed is a key function with one answer.
func fixed(key string, err error) middleware.KeyFunc {
	return func(*http.Request) (string, error) { return key, err }
}

func TestKeys(t *testing.T) {
	apiKey, byUser := middleware.ByHeader("x-api-key"), middleware.ByUser(userKey{})
	wrong := errors.New("neither ErrNoKey nor ErrBadKey")
	tests := []struct {
		name string
		key  middleware.KeyFunc
		r    *http.Request
		want string
		err  error
	}{
		{"a header", apiKey, from("203.0.113.9:1", "X-API-Key", "k1"), "k1", nil},
		{"no header", apiKey, from("203.0.113.9:1"), "", middleware.ErrNoKey},
		{"an empty header", apiKey, from("203.0.113.9:1", "X-API-Key", ""), "", middleware.ErrNoKey},
		{"a header twice", apiKey, from("203.0.113.9:1", "X-API-Key", "k1", "X-API-Key", "k2"), "", middleware.ErrBadKey},

		{"a bearer token", middleware.ByBearer, from("203.0.113.9:1", "Authorization", "Bearer t0k"), "t0k", nil},
		{"its scheme has any case", middleware.ByBearer, from("203.0.113.9:1", "Authorization", "bearer  t0k "), "t0k", nil},
		{"no token", middleware.ByBearer, from("203.0.113.9:1", "Authorization", "Bearer "), "", middleware.ErrNoKey},
		{"a scheme alone", middleware.ByBearer, from("203.0.113.9:1", "Authorization", "Bearer"), "", middleware.ErrNoKey},
		{"another scheme", middleware.ByBearer, from("203.0.113.9:1", "Authorization", "Basic dTpw"), "", middleware.ErrNoKey},
		{"no authorization", middleware.ByBearer, from("203.0.113.9:1"), "", middleware.ErrNoKey},
		{"two", middleware.ByBearer, from("203.0.113.9:1", "Authorization", "Bearer a", "Authorization", "Bearer b"), "", middleware.ErrBadKey},

		{"a user", byUser, with("alice"), "alice", nil},
		{"a Stringer", byUser, with(netip.MustParseAddr("::1")), "::1", nil},
		{"no user", byUser, from("203.0.113.9:1"), "", middleware.ErrNoKey},
		{"an empty user", byUser, with(""), "", middleware.ErrNoKey},
		{"a user of another type", byUser, with(42), "", wrong},

		{"no route", middleware.ByRoute, from("203.0.113.9:1"), "", wrong},
		{"a constant", middleware.Const("all"), from("203.0.113.9:1"), "all", nil},

		{"joined", middleware.Join(apiKey, middleware.ByIP(nil)), from("203.0.113.9:1", "X-API-Key", "k1"), "k1|203.0.113.9", nil},
		{"joined, one part", middleware.Join(apiKey), from("203.0.113.9:1", "X-API-Key", `a|b\`), `a\|b\\`, nil},
		{"joined, one missing", middleware.Join(middleware.ByIP(nil), apiKey), from("203.0.113.9:1"), "", middleware.ErrNoKey},
		{"joined, one skips", middleware.Join(apiKey, fixed("", middleware.Skip)), from("203.0.113.9:1", "X-API-Key", "k1"), "", middleware.Skip},
		{"joined, one empty", middleware.Join(apiKey, fixed("", nil)), from("203.0.113.9:1", "X-API-Key", "k1"), "", wrong},

		{"the first of three", middleware.First(byUser, apiKey, middleware.ByIP(nil)), with("alice"), "0|alice", nil},
		{"the second", middleware.First(byUser, apiKey, middleware.ByIP(nil)), from("203.0.113.9:1", "X-API-Key", "k1"), "1|k1", nil},
		{"the third", middleware.First(byUser, apiKey, middleware.ByIP(nil)), from("203.0.113.9:1"), "2|203.0.113.9", nil},
		{"none", middleware.First(byUser, apiKey), from("203.0.113.9:1"), "", middleware.ErrNoKey},
		{"a bad one stops", middleware.First(apiKey, middleware.ByIP(nil)), from("203.0.113.9:1", "X-API-Key", "k1", "X-API-Key", "k2"), "", middleware.ErrBadKey},
		{"an error stops", middleware.First(byUser, middleware.ByIP(nil)), with(42), "", wrong},
		{"skip stops", middleware.First(fixed("", middleware.Skip), middleware.ByIP(nil)), from("203.0.113.9:1"), "", middleware.Skip},
		{"an empty one stops", middleware.First(fixed("", nil), middleware.ByIP(nil)), from("203.0.113.9:1"), "", wrong},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			key, err := test.key(test.r)
			if key != test.want {
				t.Errorf("key %q, want %q", key, test.want)
			}
			switch {
			case test.err == wrong:
				if err == nil || errors.Is(err, middleware.ErrNoKey) || errors.Is(err, middleware.ErrBadKey) {
					t.Errorf("error %v", err)
				}
			case !errors.Is(err, test.err):
				t.Errorf("error %v, want %v", err, test.err)
			}
		})
	}
}

// Different parts make different keys, whatever is in them.
func TestJoinIsInjective(t *testing.T) {
	parts := [][]string{
		{"a:b", "c"}, {"a", "b:c"}, {"a|b", "c"}, {"a", "b|c"}, {`a\`, "b"}, {`a\|b`}, {`a|b`}, {"a", "b"},
		{`a\\`, "b"}, {`a\`, `\b`}, {"|", "|"}, {`\|`, `|`}, {"a", "b", "c"}, {"a|b|c"}, {"a\x00", "b"}, {"a", "\x00b"},
	}
	seen := map[string][]string{}
	for _, p := range parts {
		key := joined(t, p)
		if before, ok := seen[key]; ok {
			t.Errorf("%q and %q are both %q", before, p, key)
		}
		seen[key] = p
	}
}

func joined(t testing.TB, parts []string) string {
	t.Helper()
	keys := make([]middleware.KeyFunc, len(parts))
	for i, part := range parts {
		keys[i] = middleware.Const(part)
	}
	key, err := middleware.Join(keys...)(nil)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func TestByHeaderHost(t *testing.T) {
	r := from("203.0.113.9:1")
	r.Host = "tenant.example.com"
	if key, err := middleware.ByHeader("host")(r); key != r.Host || err != nil {
		t.Errorf("%q, %v", key, err)
	}
	r.Host = ""
	if _, err := middleware.ByHeader("Host")(r); !errors.Is(err, middleware.ErrNoKey) {
		t.Errorf("error %v", err)
	}
}

func TestHash(t *testing.T) {
	plain := middleware.ByHeader("X-API-Key")
	one, two := middleware.Hash([]byte("one"), plain), middleware.Hash([]byte("two"), plain)
	key := func(f middleware.KeyFunc, value string) string {
		key, err := f(from("203.0.113.9:1", "X-API-Key", value))
		if err != nil {
			t.Fatal(err)
		}
		return key
	}
	for _, value := range []string{"alice@example.com", "203.0.113.9", strings.Repeat("k", 1000)} {
		hashed := key(one, value)
		if len(hashed) != 43 || strings.Contains(hashed, value) {
			t.Errorf("%q becomes %q", value, hashed)
		}
		if hashed != key(one, value) {
			t.Errorf("%q is not always the same", value)
		}
		if hashed == key(two, value) || hashed == key(one, value+"x") {
			t.Errorf("%q does not depend on secret and key", value)
		}
	}
	// From printf k1 | openssl dgst -sha256 -hmac one -binary | basenc --base64url
	if got := key(one, "k1"); got != hmacOfK1 {
		t.Errorf("k1 becomes %q", got)
	}
	for _, err := range []error{middleware.ErrNoKey, middleware.ErrBadKey, middleware.Skip} {
		if got, gotErr := middleware.Hash([]byte("one"), fixed("", err))(nil); got != "" || gotErr != err {
			t.Errorf("%v becomes %q, %v", err, got, gotErr)
		}
	}
	if got, err := middleware.Hash([]byte("one"), fixed("", nil))(nil); got != "" || err == nil {
		t.Errorf("an empty key becomes %q, %v", got, err)
	}
}

// The caller may wipe the secret afterwards.
func TestHashKeepsItsSecret(t *testing.T) {
	secret := []byte("one")
	f := middleware.Hash(secret, middleware.Const("k1"))
	clear(secret)
	if got, _ := f(nil); got != hmacOfK1 {
		t.Errorf("k1 becomes %q", got)
	}
}

func TestKeyFunctionsPanic(t *testing.T) {
	k := middleware.Const("k")
	mustPanic(t, "name is empty", func() { middleware.ByHeader("") })
	mustPanic(t, "contextKey is nil", func() { middleware.ByUser(nil) })
	mustPanic(t, "key is empty", func() { middleware.Const("") })
	mustPanic(t, "Join: no key functions", func() { middleware.Join() })
	mustPanic(t, "Join: key function 1 is nil", func() { middleware.Join(k, nil) })
	mustPanic(t, "First: no key functions", func() { middleware.First() })
	mustPanic(t, "First: key function 0 is nil", func() { middleware.First(nil, k) })
	mustPanic(t, "secret is empty", func() { middleware.Hash(nil, k) })
	mustPanic(t, "Hash: key function 0 is nil", func() { middleware.Hash([]byte("s"), nil) })
}

// A route is what was registered, not what was asked for.
func TestByRoute(t *testing.T) {
	var seen []string
	record := redislimiter.AllowerFunc(func(_ context.Context, key string, _ int) (redislimiter.Result, error) {
		seen = append(seen, key)
		return redislimiter.Result{Allowed: true}, nil
	})
	limit := middleware.New(record, middleware.ByRoute, nil)
	mux := http.NewServeMux()
	mux.Handle("GET /users/{id}", limit(new(reached)))
	mux.Handle("/files/", limit(new(reached)))

	router := chi.NewRouter()
	router.With(limit).Get("/users/{id}", new(reached).ServeHTTP)
	router.Route("/api", func(api chi.Router) {
		api.Group(func(group chi.Router) {
			group.Use(limit)
			group.Get("/users/{id}", new(reached).ServeHTTP)
		})
	})
	router.Route("/v2", func(sub chi.Router) {
		sub.Use(limit)
		sub.Get("/users/{id}", new(reached).ServeHTTP)
	})
	for _, test := range []struct {
		h    http.Handler
		path string
		want string
	}{
		{mux, "/users/%d", "GET /users/{id}"},
		{mux, "/files/%d", "/files/"},
		{router, "/users/%d", "/users/{id}"},
		{router, "/api/users/%d", "/api/users/{id}"},
		{router, "/v2/users/%d", "/v2/*"},
	} {
		seen = nil
		for i := range 2 {
			if resp := serve(test.h, httptest.NewRequest(http.MethodGet, fmt.Sprintf(test.path, i), nil)); resp.StatusCode != 200 {
				t.Errorf("%s: status %d", test.path, resp.StatusCode)
			}
		}
		if len(seen) != 2 || seen[0] != test.want || seen[1] != test.want {
			t.Errorf("%s: keys %q, want %q", test.path, seen, test.want)
		}
	}
	root := chi.NewRouter()
	root.Use(limit)
	root.Get("/", new(reached).ServeHTTP)
	logged(t)
	if resp := serve(root, httptest.NewRequest(http.MethodGet, "/", nil)); resp.StatusCode != 500 {
		t.Errorf("before any match: status %d", resp.StatusCode)
	}
}

// The HMAC-SHA256 of k1 under the secret one, by another implementation.
const hmacOfK1 = "3LMUbORO_ydi2ekbHa0qaOGqYN0radM4KtgYBAA30u8"
