package middleware

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"strings"
)

// A KeyFunc says whom a request is charged to: requests with the same key
// share one limit. It returns
//
//   - a key, which must not be empty;
//   - [Skip] for a request that is not limited;
//   - an error that wraps [ErrNoKey] if the request does not carry what the
//     key is made of, or [ErrBadKey] if it carries it in a form that cannot be
//     trusted. Both are the client's fault and are answered 400;
//   - any other error if the fault is the server's, which is answered 500.
//
// There is no error by which a request would pass uncounted or share the key
// of others, and an empty key is such an error too.
//
// A KeyFunc runs before the limiter, so whatever it costs is spent on refused
// requests as well. A key taken from what the client sends without proof, such
// as an API key nobody has checked yet, limits nobody: the client sends
// another. Check it before, or limit by address around it.
type KeyFunc func(*http.Request) (string, error)

var (
	// Skip is returned by a [KeyFunc] for a request that is not limited: it
	// passes, uncounted and without headers. It is not a failure, hence its
	// name.
	Skip = errors.New("middleware: the request is not limited") //lint:ignore ST1012 as fs.SkipDir

	// ErrNoKey is what a [KeyFunc] returns, alone or wrapped, for a request that
	// does not carry what the key is made of. [First] goes on to the next
	// function then.
	ErrNoKey = errors.New("middleware: the request does not say whom to charge")

	// ErrBadKey is what a [KeyFunc] returns, alone or wrapped, for a request
	// that carries the key in a form that cannot be trusted: twice, or
	// malformed. [First] stops at it, so that garbage never buys another limit.
	ErrBadKey = errors.New("middleware: the request is unclear about whom to charge")
)

// ByHeader charges to the value of a request header, such as an API key.
//
// A request without it, or with an empty one, is an [ErrNoKey]; one that has
// it twice is an [ErrBadKey], because whoever checks the key may read the
// other one. The value becomes part of the Redis key as it is: put [Hash]
// around secrets. ByHeader panics if name is empty.
//
// Never use it for addresses: [ByIP] knows which headers to believe.
func ByHeader(name string) KeyFunc {
	if name == "" {
		panic("middleware: ByHeader: name is empty")
	}
	name = http.CanonicalHeaderKey(name)
	missing := fmt.Errorf("%w: no %s header", ErrNoKey, name)
	twice := fmt.Errorf("%w: several %s headers", ErrBadKey, name)
	return func(r *http.Request) (string, error) {
		if len(r.Header[name]) > 1 {
			return "", twice
		}
		value := r.Header.Get(name)
		if name == "Host" { // which net/http takes out
			value = r.Host
		}
		value = strings.Trim(value, " \t") // no part of it (RFC 9110, 5.5), but HTTP/2 passes it on
		if value == "" {
			return "", missing
		}
		return value, nil
	}
}

var (
	byAuthorization = ByHeader("Authorization")
	errNoBearer     = fmt.Errorf("%w: no bearer token", ErrNoKey)
)

// ByBearer charges to the token of an Authorization header of the form
// "Bearer <token>". Other schemes, and none, are an [ErrNoKey]. The token is a
// secret: use Hash(secret, ByBearer), and check the token before.
func ByBearer(r *http.Request) (string, error) {
	value, err := byAuthorization(r)
	if err != nil {
		return "", err
	}
	scheme, token, _ := strings.Cut(value, " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return "", errNoBearer
	}
	return token, nil
}

// ByRoute charges to the pattern that the request matched, such as
// "GET /users/{id}", so that all clients together share the limit of a route.
// Join it with another function for a limit by client and route.
//
// It reads [http.Request.Pattern], which net/http's ServeMux and chi (5.5) set
// before they call the handler. The middleware therefore has to be inside:
// around the handler for ServeMux, and With or Group for chi. In the middleware
// of a chi sub-router it is what has matched so far ("/api/*"), and in that of
// the root router there is no pattern yet, which is an error. It never falls back
// to the path, of which a client can make as many as it likes.
func ByRoute(r *http.Request) (string, error) {
	if r.Pattern == "" {
		return "", errors.New("middleware: ByRoute: no pattern was matched yet: mount the middleware inside the router")
	}
	return r.Pattern, nil
}

// ByUser charges to a value of the request's context: what the authentication
// before stored under contextKey, as a string or [fmt.Stringer]. No value, or
// an empty one, is an [ErrNoKey]; a value of another type is an error of the
// server. ByUser panics if contextKey is nil.
func ByUser(contextKey any) KeyFunc {
	if contextKey == nil {
		panic("middleware: ByUser: contextKey is nil")
	}
	missing := fmt.Errorf("%w: no user", ErrNoKey)
	return func(r *http.Request) (string, error) {
		user, err := userOf(r.Context(), contextKey)
		if user == "" && err == nil {
			err = missing
		}
		return user, err
	}
}

func userOf(ctx context.Context, contextKey any) (string, error) {
	switch user := ctx.Value(contextKey).(type) {
	case nil:
		return "", nil
	case string:
		return user, nil
	case fmt.Stringer:
		if v := reflect.ValueOf(user); v.Kind() == reflect.Pointer && v.IsNil() {
			return "", nil
		}
		return user.String(), nil
	default:
		return "", fmt.Errorf("middleware: ByUser: the context holds a %T, must be a string or fmt.Stringer", user)
	}
}

// Const charges every request to the same key: one limit for all clients
// together. It panics if key is empty.
//
//go:noinline
func Const(key string) KeyFunc {
	if key == "" {
		panic("middleware: Const: key is empty")
	}
	return func(*http.Request) (string, error) { return key, nil }
}
