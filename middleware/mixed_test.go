package middleware_test

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A proxy passes on the headers that it does not write: what the next one says is in
// the next one's header, not further left in the first one's.
func TestProxiesThatWriteDifferentHeaders(t *testing.T) {
	list := append(parse(t, "10.1.0.0/16").Forwarded(), parse(t, "10.2.0.0/16")...)
	alone := append(parse(t, "127.0.0.1").Header("X-Real-IP"), parse(t, "173.245.48.0/20").Header("CF-Connecting-IP")...)
	alone = append(alone, parse(t, "10.2.0.0/16")...)
	for name, test := range map[string]struct {
		proxies middleware.Proxies
		peer    string
		headers map[string]string
		want    string // empty: ErrBadKey
	}{
		"Forwarded, then X-Forwarded-For": {list, "10.1.0.9", map[string]string{"Forwarded": "for=6.6.6.6, for=10.2.0.5", "X-Forwarded-For": "6.6.6.6, 198.51.100.7"}, "198.51.100.7"},
		"X-Forwarded-For, then Forwarded": {list, "10.2.0.9", map[string]string{"X-Forwarded-For": "6.6.6.6, 10.1.0.5", "Forwarded": "for=6.6.6.6, for=198.51.100.7"}, "198.51.100.7"},
		"to and fro":                      {list, "10.2.0.9", map[string]string{"X-Forwarded-For": "10.1.0.5", "Forwarded": "for=10.2.0.5"}, ""},
		"one address, then one":           {alone, "127.0.0.1", map[string]string{"X-Real-IP": "173.245.48.1", "CF-Connecting-IP": "198.51.100.7"}, "198.51.100.7"},
		"one address, then a list":        {alone, "127.0.0.1", map[string]string{"X-Real-IP": "10.2.0.5", "X-Forwarded-For": "6.6.6.6, 198.51.100.7"}, "198.51.100.7"},
		"one address, its own":            {alone, "127.0.0.1", map[string]string{"X-Real-IP": "127.0.0.1"}, "127.0.0.1"},
		"a proxy that names nobody":       {alone, "127.0.0.1", map[string]string{"X-Real-IP": "10.2.0.5"}, "10.2.0.5"},
	} {
		t.Run(name, func(t *testing.T) {
			r := from(test.peer + ":1")
			for header, value := range test.headers {
				r.Header.Set(header, value)
			}
			got, err := test.proxies.ClientIP(r)
			if test.want == "" {
				if !errors.Is(err, middleware.ErrBadKey) {
					t.Errorf("%v, %v", got, err)
				}
			} else if err != nil || got.String() != test.want {
				t.Errorf("%v, %v, want %s", got, err, test.want)
			}
		})
	}
}

// Trust that is appended to does not leak into what was appended before.
func TestAppendedProxiesShareNothing(t *testing.T) {
	for _, base := range []middleware.Proxies{
		parse(t, "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16"), parse(t, "10.1.0.0/16", "10.2.0.0/16", "10.3.0.0/16").Forwarded(),
	} {
		public := append(base, parse(t, "10.9.0.0/16")...)
		_ = append(base, parse(t, "198.51.100.0/24")...)
		if got, err := public.ClientIP(from("198.51.100.7:1", "X-Forwarded-For", "6.6.6.6")); err != nil || got.String() != "198.51.100.7" {
			t.Errorf("%v, %v", got, err)
		}
	}
}

// HTTP/2 passes on the white space around a value, of which a client could make keys.
func TestWhiteSpaceMakesNoKeys(t *testing.T) {
	key := middleware.ByHeader("X-API-Key")
	for _, value := range []string{"alice", " alice", "alice\t", " \t alice  "} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header["X-Api-Key"] = []string{value}
		if got, err := key(r); got != "alice" || err != nil {
			t.Errorf("%q: %q, %v", value, got, err)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header["X-Api-Key"] = []string{" \t"}
	if _, err := key(r); !errors.Is(err, middleware.ErrNoKey) {
		t.Error(err)
	}
}

type nobody struct{ name string }

func (n *nobody) String() string { return n.name }

func TestANilUserIsNone(t *testing.T) {
	type userKey struct{}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r = r.WithContext(context.WithValue(r.Context(), userKey{}, (*nobody)(nil)))
	if _, err := middleware.ByUser(userKey{})(r); !errors.Is(err, middleware.ErrNoKey) {
		t.Error(err)
	}
}

// A limiter that tells clients nothing does not keep those inside it from telling.
func TestSilentLimitersSilenceNobody(t *testing.T) {
	small := func() redislimiter.Allower { return limiterOf(t, "small", redislimiter.TokenBucket(1, time.Hour, 5)) }
	unlimited := redislimiter.AllowerFunc(func(context.Context, string, int) (redislimiter.Result, error) {
		return redislimiter.Result{Allowed: true}, nil
	})
	for name, outer := range map[string]func(http.Handler) http.Handler{
		"NoHeaders":    middleware.New(small(), middleware.Const("k"), &middleware.Options{Headers: middleware.NoHeaders}),
		"ShadowHeader": middleware.New(redislimiter.Shadow(small()), middleware.Const("k"), &middleware.Options{Headers: middleware.ShadowHeader}),
		"unlimited":    middleware.New(unlimited, middleware.Const("k"), nil),
	} {
		inner := middleware.New(limiterOf(t, "inner", redislimiter.TokenBucket(1, time.Hour, 100)), middleware.Const("k"), nil)
		w := httptest.NewRecorder()
		outer(inner(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		if len(w.Header().Values("RateLimit")) == 0 {
			t.Errorf("%s: nothing is told: %v", name, w.Header())
		}
	}
}

// A pause that begins while a request waits for the limiter holds it too.
func TestTransportMindsAPauseThatBeganMeanwhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now()
		var sent []time.Duration
		base := roundTrip(func(*http.Request) (*http.Response, error) {
			sent = append(sent, time.Since(start).Round(time.Second))
			w := httptest.NewRecorder()
			if len(sent) == 1 {
				time.Sleep(time.Second)
				w.Header().Set("Retry-After", "45")
				w.WriteHeader(http.StatusTooManyRequests)
			}
			return w.Result(), nil
		})
		transport := &middleware.Transport{Base: base, Limiter: limiterOf(t, "out", redislimiter.TokenBucket(1, 10*time.Second, 1)), MaxWait: 2 * time.Minute}
		done := make(chan error, 2)
		for range 2 {
			go func() {
				r := httptest.NewRequest(http.MethodGet, "http://api.example/", nil)
				_, err := transport.RoundTrip(r)
				done <- err
			}()
			synctest.Wait()
		}
		for range 2 {
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
		if len(sent) < 2 || sent[1] < 45*time.Second {
			t.Errorf("sent at %v, asked to wait until 46s", sent)
		}
	})
}

type roundTrip func(*http.Request) (*http.Response, error)

func (f roundTrip) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

func limiterOf(t *testing.T, name string, limit redislimiter.Limit) *redislimiter.Memory {
	t.Helper()
	l, err := redislimiter.NewMemory(name, limit)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
