package middleware_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"time"

	"github.com/redislimiter/go-redislimiter/middleware"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A login is guessed at in two ways: many passwords for one account, and one
// password for many accounts. Each needs a limit of its own.
var (
	perAccount = []redislimiter.Limit{
		redislimiter.SlidingWindowLog(5, 15*time.Minute),
		redislimiter.BlockAfter(10, 15*time.Minute, 15*time.Minute), // who goes on after that is no forgetful user
	}
	perAddress = []redislimiter.Limit{
		redislimiter.SlidingWindowLog(30, 15*time.Minute), // an office shares one
		redislimiter.BlockAfter(10, 15*time.Minute, 15*time.Minute),
	}
)

// protectLogin lets an attempt through if neither its address nor its account
// has failed too often. Only a wrong password counts, and only once. Addresses
// and accounts are hashed, so that they are not readable in Redis, and nobody
// is told how many attempts an account has left: that would tell that others
// try.
//
// An account is limited whether it exists or not. For the same reason login
// has to answer the same, and take as long, for an account that does not exist.
func protectLogin(address, account redislimiter.Allower, secret []byte, trusted middleware.Proxies, login http.Handler) http.Handler {
	opts := &middleware.Options{
		OnlyFailures: func(status int) bool { return status == http.StatusUnauthorized },
		Headers:      middleware.NoHeaders,
	}
	byAddress := middleware.New(address, middleware.Hash(secret, middleware.ByIP(trusted)), opts)
	byAccount := middleware.New(account, middleware.Hash(secret, accountOf), opts)
	return http.MaxBytesHandler(byAddress(byAccount(login)), 4<<10)
}

// accountOf is the account as login looks it up, so that "Bob" and "bob " do not
// have a limit each.
func accountOf(r *http.Request) (string, error) {
	account := strings.ToLower(strings.TrimSpace(r.PostFormValue("email")))
	if account == "" {
		return "", middleware.ErrNoKey
	}
	return account, nil
}

// Login protection: by account and by address together, only failures count,
// and a block after repeated refusals. Use a [redislimiter.Limiter] for each,
// with [redislimiter.Closed] as its fallback if a login must not be guessable
// while Redis is away.
func Example_login() {
	address, err := redislimiter.NewMemory("login-address", perAddress...)
	if err != nil {
		panic(err)
	}
	account, err := redislimiter.NewMemory("login-account", perAccount...)
	if err != nil {
		panic(err)
	}
	login := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.PostFormValue("password") != "right" {
			http.Error(w, "e-mail or password is wrong", http.StatusUnauthorized)
		}
	})
	mux := http.NewServeMux()
	mux.Handle("POST /login", protectLogin(address, account, []byte("secret of all instances"), nil, login))

	for _, password := range []string{"right", "1", "2", "right", "3", "4", "5", "right"} {
		form := url.Values{"email": {"bob@example.com"}, "password": {password}}
		r := httptest.NewRequest(http.MethodPost, "/login", strings.NewReader(form.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		fmt.Println(password, w.Code)
	}
	// Output:
	// right 200
	// 1 401
	// 2 401
	// right 200
	// 3 401
	// 4 401
	// 5 401
	// right 429
}
