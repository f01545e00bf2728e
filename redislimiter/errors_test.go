package redislimiter_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/redis/go-redis/v9"

	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// What a server says to clients is put into words, and still found by errors.As.
func TestErrorsSpeakToTheCaller(t *testing.T) {
	for reply, want := range map[string]string{
		"LOADING Redis is loading the dataset in memory":            "still loading",
		"READONLY You can't write against a read only replica.":     "read-only replica",
		"TRYAGAIN Multiple keys request during rehashing of slot":   "being moved",
		"MOVED 3999 127.0.0.1:6381":                                 "another node",
		"ASK 3999 127.0.0.1:6381":                                   "being moved",
		"NOSCRIPT No matching script. Please use EVAL.":             "forgets its scripts",
		"CLUSTERDOWN The cluster is down":                           "no primary",
		"ERR The user executing the script can't run this command ": "can't run this command",
	} {
		synctest.Test(t, func(t *testing.T) {
			f, l := flakyLimiter(t)
			f.before = func(context.Context, int64, redis.Cmder) error { return serverError(reply) }
			_, err := l.Allow(t.Context(), "k")
			if !errors.Is(err, rl.ErrUnavailable) || errors.Is(err, rl.ErrUncertain) {
				t.Fatalf("%s: %v", reply, err)
			}
			var server redis.Error
			code, _, _ := strings.Cut(reply, " ")
			if text := err.Error(); !strings.Contains(text, want) && !strings.Contains(text, "in time") ||
				code != "ERR" && strings.Contains(text, code) {
				t.Errorf("%s: the caller reads %v", reply, err)
			}
			if errors.As(err, &server) && !strings.HasPrefix(server.Error(), code) {
				t.Errorf("%s: inside is %v", reply, server)
			}
		})
	}
}
