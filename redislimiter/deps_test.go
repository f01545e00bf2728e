package redislimiter_test

import (
	"os/exec"
	"strings"
	"testing"
)

// What a user's binary gets with the library. Everything else, test helpers
// above all, must stay out of it.
var allowedDependencies = []string{
	"github.com/redislimiter/go-redislimiter/",
	"github.com/redis/go-redis/v9",
	"github.com/cespare/xxhash/v2", // go-redis
	"go.uber.org/atomic",           // go-redis
	"golang.org/x/sys/cpu",         // xxhash
	"github.com/sony/gobreaker/v2", // Fallback
	"github.com/felixge/httpsnoop", // middleware, OnlyFailures
}

func TestDependencies(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}",
		"github.com/redislimiter/go-redislimiter/redislimiter",
		"github.com/redislimiter/go-redislimiter/middleware",
	).CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
next:
	for path := range strings.FieldsSeq(string(out)) {
		if strings.Contains(path, "limitertest") {
			t.Errorf("a test helper is linked into users' binaries: %s", path)
		}
		for _, allowed := range allowedDependencies {
			if path == strings.TrimSuffix(allowed, "/") || strings.HasPrefix(path, strings.TrimSuffix(allowed, "/")+"/") {
				continue next
			}
		}
		t.Errorf("not on the list of dependencies: %s", path)
	}
}
