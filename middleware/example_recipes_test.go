package middleware_test

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"time"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A limit for all routes of an address together, and one more for an expensive route.
func Example_routes() {
	all := must(redislimiter.NewMemory("all", redislimiter.TokenBucket(100, time.Hour, 100)))
	search := must(redislimiter.NewMemory("search", redislimiter.TokenBucket(1, time.Hour, 1)))
	client := middleware.ByIP(nil)

	mux := http.NewServeMux()
	mux.Handle("GET /", hello)
	mux.Handle("GET /search", middleware.New(search, client, nil)(hello))
	h := middleware.New(all, client, nil)(mux)

	for _, path := range []string{"/search", "/search", "/"} {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, nil))
		fmt.Println(path, w.Code)
	}
	// Output:
	// /search 200
	// /search 429
	// / 200
}

// verified lets through what a sender has signed. It stands for the scheme of
// whoever sends.
func verified(secrets map[string]string, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 1<<20))
		secret, known := secrets[r.PathValue("sender")]
		mac := hmac.New(sha256.New, []byte(secret))
		mac.Write(body)
		if err != nil || !known || !hmac.Equal([]byte(hex.EncodeToString(mac.Sum(nil))), []byte(r.Header.Get("X-Signature"))) {
			http.Error(w, "who are you?", http.StatusUnauthorized)
			return
		}
		r.Body = io.NopCloser(bytes.NewReader(body))
		next.ServeHTTP(w, r)
	})
}

// receiver takes webhooks: by address before the signature is checked, which costs,
// and by sender after it, when the sender is known. Senders send again what is
// refused, so a refusal loses nothing; while Redis is away all are taken.
func receiver(address, sender redislimiter.Allower, secrets map[string]string, handle http.Handler) http.Handler {
	bySender := func(r *http.Request) (string, error) { return r.PathValue("sender"), nil }
	byAddress := middleware.New(&redislimiter.Fallback{Primary: address, Secondary: redislimiter.Open}, middleware.ByIP(nil), nil)
	limited := middleware.New(&redislimiter.Fallback{Primary: sender, Secondary: redislimiter.Open}, bySender, nil)

	mux := http.NewServeMux()
	mux.Handle("POST /hooks/{sender}", byAddress(verified(secrets, limited(handle))))
	return mux
}

// A webhook receiver: one sender's storm does not keep out the others.
func Example_webhooks() {
	address := must(redislimiter.NewMemory("hook-address", redislimiter.TokenBucket(100, time.Second, 1000)))
	sender := must(redislimiter.NewMemory("hook-sender", redislimiter.TokenBucket(1, time.Minute, 2)))
	h := receiver(address, sender, map[string]string{"shop": "s1", "bank": "s2"}, hello)
	for _, call := range [][2]string{{"shop", "s1"}, {"shop", "s1"}, {"shop", "s1"}, {"bank", "s2"}, {"bank", "guessed"}} {
		mac := hmac.New(sha256.New, []byte(call[1]))
		mac.Write([]byte("{}"))
		r := httptest.NewRequest(http.MethodPost, "/hooks/"+call[0], bytes.NewReader([]byte("{}")))
		r.Header.Set("X-Signature", hex.EncodeToString(mac.Sum(nil)))
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		fmt.Printf("%s %d %q\n", call[0], w.Code, w.Header().Get("Retry-After"))
	}
	// Output:
	// shop 200 ""
	// shop 200 ""
	// shop 429 "60"
	// bank 200 ""
	// bank 401 ""
}

// Neither Redis nor its operators learn the keys.
func ExampleHash() {
	key := middleware.Hash([]byte("secret of all instances"), middleware.ByHeader("X-API-Key"))
	hashed, err := key(from("203.0.113.9:1", "X-API-Key", "k-123"))
	fmt.Println(len(hashed), hashed != "k-123", err)
	// Output: 43 true <nil>
}

// One limit that all clients share, for what the service as a whole can bear.
func ExampleConst() {
	limiter := must(redislimiter.NewMemory("report", redislimiter.TokenBucket(1, time.Minute, 1)))
	h := middleware.New(limiter, middleware.Const("all"), nil)(hello)
	get(h, "203.0.113.9")
	get(h, "198.51.100.7")
	// Output:
	// 200 "report";r=0;t=60
	// 429 "report";r=0;t=60
}

// The client behind two proxies of ours.
func ExampleProxies_ClientIP() {
	trusted := must(middleware.ParseProxies("10.0.0.0/8"))
	fmt.Println(trusted.ClientIP(from("10.0.0.2:1", "X-Forwarded-For", "6.6.6.6, 198.51.100.7, 10.0.0.9")))
	fmt.Println(trusted.ClientIP(from("203.0.113.9:1", "X-Forwarded-For", "6.6.6.6")))
	// Output:
	// 198.51.100.7 <nil>
	// 203.0.113.9 <nil>
}

// The caller's token, which has to be checked before it can limit anybody.
func ExampleByBearer() {
	fmt.Println(middleware.ByBearer(from("203.0.113.9:1", "Authorization", "Bearer t-123")))
	_, err := middleware.ByBearer(from("203.0.113.9:1"))
	fmt.Println(errors.Is(err, middleware.ErrNoKey))
	// Output:
	// t-123 <nil>
	// true
}

// A platform whose load balancer has no addresses that one could list.
func ExampleUnverifiedHops() {
	key := middleware.ByIP(middleware.UnverifiedHops(1))
	fmt.Println(key(from("10.0.0.2:1", "X-Forwarded-For", "6.6.6.6, 198.51.100.7")))
	// Output: 198.51.100.7 <nil>
}

// Behind Cloudflare, whose header holds one address and replaces what clients send.
func ExampleProxies_Header() {
	cloudflare := must(middleware.ParseProxies("173.245.48.0/20")).Header("CF-Connecting-IP")
	fmt.Println(cloudflare.ClientIP(from("173.245.48.1:1", "CF-Connecting-IP", "198.51.100.7")))
	// Output: 198.51.100.7 <nil>
}

// Plain text for those who do not read JSON.
func ExampleDeniedText() {
	limiter := must(redislimiter.NewMemory("api", redislimiter.TokenBucket(1, time.Minute, 1)))
	h := middleware.New(limiter, middleware.Const("all"), &middleware.Options{
		Denied: middleware.DeniedText,
		Failed: middleware.FailedText,
	})(hello)
	for range 2 {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
		fmt.Println(w.Code, w.Body)
	}
	// Output:
	// 200 hello
	// 429 Too many requests. Try again in 60 seconds.
}

// The headers of before the IETF's drafts became structured.
func ExampleRateLimitTriple() {
	limiter := must(redislimiter.NewMemory("api", redislimiter.SlidingWindowLog(5, time.Hour)))
	h := middleware.New(limiter, middleware.Const("all"), &middleware.Options{Headers: middleware.RateLimitTriple})(hello)
	w := httptest.NewRecorder()
	h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/", nil))
	fmt.Println(w.Header().Get("RateLimit-Limit"), w.Header().Get("RateLimit-Remaining"), w.Header().Get("RateLimit-Reset"))
	// Output: 5 4 3600
}
