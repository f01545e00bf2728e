package main

import (
	"context"
	"errors"
	"flag"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

var update = flag.Bool("update", false, "write the files in testdata")

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	_ = os.Unsetenv("REDIS_URL") // whatever whoever runs the tests has set
	os.Exit(m.Run())
}

// noon is when everything happens on the servers of these tests.
var noon = time.Date(2030, 1, 2, 12, 0, 0, 0, time.UTC)

func newServer(t *testing.T) (*miniredis.Miniredis, *redis.Client) {
	t.Helper()
	server := miniredis.RunT(t)
	server.SetTime(noon)
	client := redis.NewClient(&redis.Options{Addr: server.Addr()})
	t.Cleanup(func() { client.Close() })
	return server, client
}

// invoke runs the program. Arguments are separated by spaces.
func invoke(t *testing.T, line string, more ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs strings.Builder
	code = run(t.Context(), append(strings.Fields(line), more...), &out, &errs)
	return code, out.String(), errs.String()
}

// golden compares with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s: got\n%s\nwant\n%s", name, got, want)
	}
}

func TestHelpAndVersion(t *testing.T) {
	code, out, errs := invoke(t, "--help")
	if code != 0 || errs != "" {
		t.Errorf("exit code %d, %s", code, errs)
	}
	golden(t, "help.txt", out)
	for line, want := range map[string]string{
		"--version":      "redislimiter ",
		"inspect --help": "token_bucket:RATE/PER:burst=N",
		"reset --help":   "CacheDenials",
		"top --help":     "+/-",
		"check --help":   "a warning is none",
		"scripts --help": "sha1sum",
	} {
		if code, out, errs := invoke(t, line); code != 0 || errs != "" || !strings.Contains(out, want) {
			t.Errorf("%s: exit code %d, %s, %s; want %s", line, code, out, errs, want)
		}
	}
}

func TestWrongUsage(t *testing.T) {
	for line, names := range map[string]string{
		"":                                  "inspect",
		"look":                              "look",
		"--colour":                          "--colour",
		"inspect":                           "<name>",
		"inspect api":                       "<key>",
		"inspect api k more":                "more",
		"inspect a:b k":                     `"a:b"`,
		"inspect api k --limit bucket:1/1s": `"bucket"`,
		"inspect api k --limit":             "--limit",
		"inspect api k --timeout 0s":        "--timeout",
		"inspect api k --timeout ten":       "--timeout",
		"inspect api k --redis localhost":   "--redis",
		"inspect api k --limit block_after:1/1s:block=1s": "--limit",
		"reset api":                             "<key>",
		"top":                                   "<url>",
		"top ftp://x":                           "url 1",
		"top http://x --count 0":                "--count",
		"check a:b":                             `"a:b"`,
		"scripts --only decide":                 "--only",
		"scripts --only all":                    "--only",
		"scripts --only reset --load":           "--only",
		"scripts redis://user:hidden@localhost": "unexpected argument",
	} {
		code, out, errs := invoke(t, line)
		if code != 2 || !strings.Contains(errs, names) || out != "" || !strings.HasPrefix(errs, "redislimiter: ") {
			t.Errorf("%s: exit code %d, %q, %q; want 2 and %s", line, code, out, errs, names)
		}
		if strings.Contains(errs, "hidden") {
			t.Errorf("%s: the password is in %q", line, errs)
		}
	}
}

// However a URL is misread, no part of its password is printed.
func TestPasswordsAreNeverPrinted(t *testing.T) {
	for _, url := range []string{
		"redis://:hidden@127.0.0.1:1", "redis://user:hidden@127.0.0.1:1/0", "redis://:hi/hidden@127.0.0.1:1", "redis://:1/hidden@127.0.0.1:1",
		"redis://:1?hidden@127.0.0.1:1", "redis://:1#hidden@127.0.0.1:1", "redis://:%zzhidden@127.0.0.1:1", "redis://:x hidden@127.0.0.1:1",
		"http://:hidden@127.0.0.1:1", "hidden", ":hidden@127.0.0.1", "redis://127.0.0.1:1?password=hidden", "redis://127.0.0.1:1/hidden",
		"unix://:hidden@/nowhere", "redis://:hidden@127.0.0.1:1?addr=127.0.0.1:2", "redis://:hidden@127.0.0.1:1?addr=hidden",
		"redis://:hidden@127.0.0.1:1?master_name=m", "redis://127.0.0.1:1?master_name=&password=hidden", "rediss://:hidden@127.0.0.1:1",
	} {
		for _, line := range []string{"inspect api k", "reset api k", "check", "check --json", "scripts --load"} {
			for _, env := range []bool{false, true} {
				args := []string{"--redis", url}
				if env {
					t.Setenv("REDIS_URL", url)
					args = nil
				}
				code, out, errs := invoke(t, line+" --timeout 300ms", args...)
				if code == 0 || errs == "" || strings.Contains(out+errs, "hidden") {
					t.Errorf("%s %s: exit code %d, %s%s", line, url, code, out, errs)
				}
			}
			_ = os.Unsetenv("REDIS_URL")
		}
	}
}

func TestServerThatIsNotThere(t *testing.T) {
	for _, line := range []string{"inspect api k", "reset api k", "check", "scripts --load"} {
		code, out, errs := invoke(t, line+" --redis redis://127.0.0.1:1")
		if code != 1 || !strings.Contains(out+errs, "127.0.0.1:1") || !strings.Contains(out+errs, "refused") {
			t.Errorf("%s: exit code %d, %q, %q", line, code, out, errs)
		}
	}
}

// silent accepts connections and says nothing.
func silent(t *testing.T) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { listener.Close() })
	return listener.Addr().String()
}

func TestTimeoutAndInterrupt(t *testing.T) {
	addr := silent(t)
	for _, line := range []string{"inspect api k", "reset api k", "check", "scripts --load", "inspect api k --limit gcra:1/1s:burst=1"} {
		start := time.Now()
		code, _, errs := invoke(t, line+" --timeout 50ms --redis redis://"+addr)
		if code != 1 || time.Since(start) > 3*time.Second {
			t.Errorf("%s: exit code %d after %v, %q", line, code, time.Since(start), errs)
		}
		ctx, interrupt := context.WithCancel(t.Context())
		time.AfterFunc(20*time.Millisecond, interrupt)
		var out, stderr strings.Builder
		start = time.Now()
		code = run(ctx, strings.Fields(line+" --timeout 1h --redis redis://"+addr), &out, &stderr)
		if code != 1 || stderr.String() != "redislimiter: interrupted\n" || time.Since(start) > 3*time.Second {
			t.Errorf("%s: exit code %d after %v, %q", line, code, time.Since(start), stderr.String())
		}
		interrupt()
	}
	if code, _, errs := invoke(t, "top --timeout 50ms http://"+addr); code != 1 || !strings.Contains(errs, "not done within 50ms") {
		t.Errorf("top: exit code %d, %q", code, errs)
	}
}

// broken is a pipe whose reader has gone.
type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, errors.New("broken pipe") }

func TestOutputThatCannotBeWritten(t *testing.T) {
	for _, line := range []string{"scripts", "scripts --json"} {
		var errs strings.Builder
		if code := run(t.Context(), strings.Fields(line), broken{}, &errs); code != 1 || !strings.Contains(errs.String(), "broken pipe") {
			t.Errorf("%s: exit code %d, %q", line, code, errs.String())
		}
	}
}

// newLimiter makes a limiter of the application.
func newLimiter(t *testing.T, client *redis.Client, name string, limits ...rl.Limit) *rl.Limiter {
	t.Helper()
	l, err := rl.New(client, name, limits...)
	if err != nil {
		t.Fatal(err)
	}
	l.Timeout = 10 * time.Second
	return l
}

func charge(t *testing.T, l rl.Allower, key string, n int) rl.Result {
	t.Helper()
	r, err := l.AllowN(t.Context(), key, n)
	if err != nil {
		t.Fatal(err)
	}
	return r
}
