package keys

import (
	"strings"
	"testing"
)

// Whatever the id, there is exactly one pair of braces with something between
// them: the library's own. And no two ids give one key.
func FuzzEscape(f *testing.F) {
	for _, id := range []string{"", "%", "%h", "{", "}", "{}", "}x", "a{b}c", "%7B", "\x00", "\n", strings.Repeat("x", 129)} {
		f.Add(id, "a")
		f.Add(id, id+"%")
	}
	f.Fuzz(func(t *testing.T, a, b string) {
		x, y := Escape(a), Escape(b)
		if (x == y) != (a == b) {
			t.Errorf("%q and %q become %q and %q", a, b, x, y)
		}
		if x == "" || strings.ContainsAny(x, "{}") || len(x) > 3*maxID || strings.HasPrefix(x, "%c") {
			t.Errorf("%q becomes %q", a, x)
		}
	})
}

func TestKeys(t *testing.T) {
	got := Prefixes("api", []string{"h", "log0"})
	if got[0] != "rl:api:h:{" || got[1] != "rl:api:log0:{" {
		t.Errorf("%q", got)
	}
	if got := Of("api", []string{"h"}, "a{b}"); len(got) != 1 || got[0] != "rl:api:h:{a%7Bb%7D}" {
		t.Errorf("%q", got)
	}
	for id, want := range map[string]string{
		"user:1": "user:1", "": "%", "a{b}c": "a%7Bb%7Dc", "100%": "100%25", "a\nb": "a%0Ab", "é": "é",
	} {
		if got := Escape(id); got != want {
			t.Errorf("%q becomes %q, want %q", id, got, want)
		}
	}
	if got := Escape(strings.Repeat("x", 129)); len(got) != 66 || !strings.HasPrefix(got, "%h") {
		t.Errorf("a long id becomes %q", got)
	}
}
