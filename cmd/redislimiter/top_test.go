package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
)

// instance serves a body as an instance of an application would.
func instance(t *testing.T, status int, body string) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	return s.URL
}

func TestTop(t *testing.T) {
	a := instance(t, 200, `{"refused":[{"name":"api","key":"aa","count":12,"error":0},{"name":"api","key":"bb","count":7,"error":1}],"total":123}`)
	b := instance(t, 200, `{"refused":[{"name":"api","key":"bb","count":9,"error":2},{"name":"login","key":"aa","count":5,"error":0}],"total":20}`)
	code, out, errs := invoke(t, "top "+a+" "+b)
	if code != 0 || errs != "" {
		t.Errorf("exit code %d, %s", code, errs)
	}
	golden(t, "top.txt", out)
	code, out, _ = invoke(t, "top --json --count 1 "+a+" "+b)
	var got answer
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 {
		t.Fatalf("exit code %d, %v", code, err)
	}
	if want := (answer{[]refused{{"api", "bb", 16, 3}}, 143, 0}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
	if code, out, _ := invoke(t, "top "+instance(t, 200, `{"refused":[],"total":0}`)); code != 0 || out != "Nobody was refused.\n" {
		t.Errorf("exit code %d, %s", code, out)
	}
}

// A key that one of the instances does not list may have been refused there.
func TestTopCountsWhatIsNotListed(t *testing.T) {
	got := merge([]answer{
		{[]refused{{"api", "aa", 12, 1}, {"api", "bb", 7, 0}}, 30, 4},
		{[]refused{{"api", "bb", 9, 2}}, 20, 3},
	})
	if want := (&answer{[]refused{{"api", "bb", 16, 2}, {"api", "aa", 15, 4}}, 50, 7}); !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

func TestTopOfInstancesThatDoNotAnswer(t *testing.T) {
	good := instance(t, 200, `{"refused":[{"name":"api","key":"aa","count":12,"error":0}],"total":12}`)
	for _, test := range []struct{ url, names string }{
		{"http://user:hidden@127.0.0.1:1/refused?token=hidden", "127.0.0.1:1/refused: dial"},
		{"http://127.0.0.1:1/refused", "127.0.0.1:1/refused: dial"},
		{strings.Replace(instance(t, 401, "no"), "://", "://user:hidden@", 1), "401"},
		{instance(t, 200, "<html>"), "not what TopRefused serves"},
		{instance(t, 200, "{}"), "not what TopRefused serves"},
		{instance(t, 200, `{"refused":[{"count":-1}]}`), "not what TopRefused serves"},
	} {
		code, out, errs := invoke(t, "top "+good+" "+test.url)
		if code != 1 || !strings.Contains(out, `"aa"`) || !strings.Contains(errs, test.names) || strings.Contains(errs, "hidden") {
			t.Errorf("%s: exit code %d, %s%s", test.url, code, out, errs)
		}
		if code, out, _ := invoke(t, "top "+test.url); code != 1 || out != "" {
			t.Errorf("%s alone: exit code %d, %s", test.url, code, out)
		}
	}
}

// What instances answer must not reach the terminal as it is.
func TestTopPrintsNoControlCharacters(t *testing.T) {
	url := instance(t, 200, `{"refused":[{"name":"a\u001b[2J","key":"k\u001b]0;x\u0007\n","count":1,"error":0}],"total":1}`)
	code, out, _ := invoke(t, "top "+url)
	if code != 0 || strings.ContainsAny(out, "\x1b\x07") || strings.Count(out, "\n") != 3 {
		t.Errorf("exit code %d, %q", code, out)
	}
}
