package integration_test

import (
	"os"
	"strings"
	"testing"
)

// documentedUser makes the user that docs/operations.md describes on a server, and returns its name. Tests that share a
// server share the user.
func documentedUser(t *testing.T, addr string, cluster bool) string {
	t.Helper()
	lines := documentedACL(t)
	if !cluster {
		lines = lines[:1]
	}
	admin := dial(t, addr)
	for _, line := range lines {
		if err := admin.Do(t.Context(), asArgs(line)...).Err(); err != nil {
			t.Fatalf("%v: %v", line, err)
		}
	}
	return lines[0][2]
}

// documentedACL are the words of the lines that set up the user: for every server, and what a cluster needs besides.
func documentedACL(t *testing.T) (lines [][]string) {
	t.Helper()
	text, err := os.ReadFile("../docs/operations.md")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "ACL SETUSER ") {
			lines = append(lines, strings.Fields(strings.ReplaceAll(line, "PASSWORD", aclPassword)))
		}
	}
	if len(lines) != 2 {
		t.Fatalf("docs/operations.md has %d ACL lines, want 2", len(lines))
	}
	return lines
}

func asArgs(words []string) []any {
	args := make([]any, len(words))
	for i, word := range words {
		args[i] = word
	}
	return args
}
