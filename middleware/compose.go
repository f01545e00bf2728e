package middleware

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"net/http"
	"strconv"
	"strings"
	"sync"
)

// Join charges to several things together, such as address and route. Different
// parts make different keys: ("a|b", "c") and ("a", "b|c") stay apart. The
// first error of a part, [Skip] included, is that of all. Join panics without
// parts or if one is nil.
func Join(parts ...KeyFunc) KeyFunc {
	checkKeys("Join", parts)
	return func(r *http.Request) (string, error) {
		var joined []byte
		for i, part := range parts {
			key, err := keyOf(part, r)
			if err != nil {
				return "", err
			}
			if len(parts) == 1 {
				return escapePart(key), nil
			}
			if i > 0 {
				joined = append(joined, separator)
			}
			joined = appendPart(joined, key)
		}
		return string(joined), nil
	}
}

// The separator of joined parts does not occur in addresses, routes and most
// ids, so that keys stay readable. Where it does, it is escaped.
const (
	separator = '|'
	escape    = '\\'
)

func appendPart(joined []byte, part string) []byte {
	if joined == nil {
		joined = make([]byte, 0, 2*len(part)+32)
	}
	for i := range len(part) {
		if c := part[i]; c == separator || c == escape {
			joined = append(joined, escape)
		}
		joined = append(joined, part[i])
	}
	return joined
}

func escapePart(part string) string {
	if strings.IndexByte(part, separator) < 0 && strings.IndexByte(part, escape) < 0 {
		return part
	}
	return string(appendPart(nil, part))
}

// First charges to the first thing that the request carries, such as the user,
// else the API key, else the address:
//
//	First(ByUser(userKey{}), Hash(secret, ByHeader("X-API-Key")), ByIP(trusted))
//
// It goes on to the next function only at an [ErrNoKey]; every other error,
// [Skip] included, is the answer. Each function has its own name space, so that
// a user named 203.0.113.9 does not share the limit of that
// address. First panics without keys or if one is nil.
func First(keys ...KeyFunc) KeyFunc {
	checkKeys("First", keys)
	spaces := make([]string, len(keys))
	for i := range keys {
		spaces[i] = strconv.Itoa(i) + string(separator)
	}
	return func(r *http.Request) (string, error) {
		for i, f := range keys {
			key, err := keyOf(f, r)
			switch {
			case err == nil:
				return spaces[i] + key, nil
			case i == len(keys)-1 || !errors.Is(err, ErrNoKey):
				return "", err
			}
		}
		return "", ErrNoKey // not reached: the last one has returned
	}
}

// Hash replaces a key by its HMAC-SHA256 under secret, so that neither Redis
// nor anything that reads its keys learns API keys, e-mails or addresses. All
// instances need the same secret; another secret makes every client a new one.
// Since few addresses exist, all can be tried by who has the secret: keep it as
// one. Errors, [Skip] included, pass through. Hash panics if secret is empty or
// key is nil.
func Hash(secret []byte, key KeyFunc) KeyFunc {
	if len(secret) == 0 {
		panic("middleware: Hash: secret is empty")
	}
	checkKeys("Hash", []KeyFunc{key})
	secret = append([]byte(nil), secret...)
	macs := sync.Pool{New: func() any { return hmac.New(sha256.New, secret) }}
	return func(r *http.Request) (string, error) {
		plain, err := keyOf(key, r)
		if err != nil {
			return "", err
		}
		mac := macs.Get().(hash.Hash)
		defer macs.Put(mac)
		mac.Reset()
		mac.Write([]byte(plain))
		var sum [sha256.Size]byte
		return base64.RawURLEncoding.EncodeToString(mac.Sum(sum[:0])), nil
	}
}

var errEmptyKey = errors.New("middleware: the key function returned an empty key, which clients would share")

// keyOf calls a key function and holds it to its contract.
func keyOf(f KeyFunc, r *http.Request) (string, error) {
	key, err := f(r)
	if err != nil {
		return "", err
	}
	if key == "" {
		return "", errEmptyKey
	}
	return key, nil
}

func checkKeys(name string, keys []KeyFunc) {
	if len(keys) == 0 {
		panic("middleware: " + name + ": no key functions")
	}
	for i, key := range keys {
		if key == nil {
			panic(fmt.Sprintf("middleware: %s: key function %d is nil", name, i))
		}
	}
}
