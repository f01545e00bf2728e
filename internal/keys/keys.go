// Package keys writes the keys under which state is stored in Redis.
//
// They look like rl:<name>:<segment>:{<id>}, and only this package writes them.
// The braces make Redis Cluster hash the id alone, so that all keys of one id
// share a slot; a brace that the id itself contains is escaped. What the caller
// passes can therefore never choose where, or under which name, state is stored.
package keys

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
)

// Prefix is what all keys begin with.
const Prefix = "rl:"

const (
	maxName = 64
	maxID   = 128 // longer ones are stored as their hash
)

// CheckName allows what is at once safe in a Redis key, a metric label and an
// HTTP header.
func CheckName(name string) error {
	if name == "" {
		return errors.New("redislimiter: name is empty, it has to tell limiters apart")
	}
	if len(name) > maxName {
		return fmt.Errorf("redislimiter: name has %d bytes, must have at most %d", len(name), maxName)
	}
	for i := range len(name) {
		if c := name[i]; !alphanumeric(c) && c != '.' && c != '_' && c != '-' {
			return fmt.Errorf("redislimiter: name %q: only letters, digits, '.', '_' and '-' are possible", name)
		}
	}
	return nil
}

func alphanumeric(c byte) bool {
	return 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9'
}

// Prefixes are the beginnings of the Redis keys of one id.
func Prefixes(name string, segments []string) []string {
	all := make([]string, len(segments))
	for i, segment := range segments {
		all[i] = Prefix + name + ":" + segment + ":{"
	}
	return all
}

// Of are the Redis keys of one id, which need not be escaped.
func Of(name string, segments []string, id string) []string {
	all := Prefixes(name, segments)
	for i := range all {
		all[i] += Escape(id) + "}"
	}
	return all
}

// Short keeps long ids from taking memory. The result cannot be that of
// another id: it is longer than those that stay as they are.
func Short(id string) string {
	if len(id) <= maxID {
		return id
	}
	sum := sha256.Sum256([]byte(id))
	return "%h" + hex.EncodeToString(sum[:]) + strings.Repeat("%", maxID+1-66)
}

// Escape makes an id fit between the braces; different ids stay different.
//
// Braces, the escape sign itself and control characters become % and two hex
// digits. The empty id becomes a lone %, because Redis Cluster does not treat
// {} as a tag, and a long one %h and its SHA-256: neither can come out of
// escaping.
func Escape(id string) string {
	switch {
	case id == "":
		return "%"
	case len(id) > maxID:
		sum := sha256.Sum256([]byte(id))
		return "%h" + hex.EncodeToString(sum[:])
	}
	for i := range len(id) {
		if special(id[i]) {
			return escapeFrom(id, i)
		}
	}
	return id
}

func special(c byte) bool {
	return c == '{' || c == '}' || c == '%' || c < ' ' || c == 0x7f
}

func escapeFrom(id string, i int) string {
	const digits = "0123456789ABCDEF"
	b := append(make([]byte, 0, len(id)+16), id[:i]...)
	for ; i < len(id); i++ {
		if c := id[i]; special(c) {
			b = append(b, '%', digits[c>>4], digits[c&15])
		} else {
			b = append(b, c)
		}
	}
	return string(b)
}
