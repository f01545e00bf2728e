package limitspec_test

import (
	"strings"
	"testing"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/limitspec"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

func TestParse(t *testing.T) {
	for text, want := range map[string]struct {
		limit   rl.Limit
		written string
	}{
		"fixed_window:1000/d":                {rl.FixedWindow(1000, 24*time.Hour), "fixed_window:1000/1d"},
		"fixed_window:5/90s":                 {rl.FixedWindow(5, 90*time.Second), "fixed_window:5/1m30s"},
		"sliding_window_log:5/60m":           {rl.SlidingWindowLog(5, time.Hour), "sliding_window_log:5/1h"},
		"sliding_window_counter:9/500ms":     {rl.SlidingWindowCounter(9, 500*time.Millisecond), "sliding_window_counter:9/500ms"},
		"token_bucket:100/m:burst=20":        {rl.TokenBucket(100, time.Minute, 20), "token_bucket:100/1m:burst=20"},
		"gcra:100/ms:burst=1":                {rl.GCRA(100, time.Millisecond, 1), "gcra:100/1ms:burst=1"},
		"leaky_bucket:10/1s:queue=3":         {rl.LeakyBucket(10, time.Second, 3), "leaky_bucket:10/1s:queue=3"},
		"block_after:10/1h30m:block=15m":     {rl.BlockAfter(10, 90*time.Minute, 15*time.Minute), "block_after:10/1h30m:block=15m"},
		"block_after:10/3650d:block=1h0m10s": {rl.BlockAfter(10, 3650*24*time.Hour, 3610*time.Second), "block_after:10/3650d:block=1h0m10s"},
	} {
		s, err := limitspec.Parse(text)
		if err != nil || s.Limit != want.limit || s.String() != want.written {
			t.Errorf("%s: %v, %s, %v; want %v, %s", text, s.Limit, s, err, want.limit, want.written)
		}
	}
}

func TestWrongLimits(t *testing.T) {
	for text, names := range map[string]string{
		"":                                            "no algorithm",
		"bucket:1/1s":                                 `no algorithm "bucket", there are fixed_window,`,
		"fixed_window":                                "is not a rate",
		"fixed_window:5":                              `"5" is not a rate`,
		"fixed_window:x/1s":                           `rate "x"`,
		"fixed_window:5/":                             `"" is not a duration`,
		"fixed_window:5/1":                            `"1" is not a duration`,
		"fixed_window:5/1y":                           `"1y" is not a duration`,
		"fixed_window:5/4000d":                        "3650",
		"fixed_window:5/-1d":                          "3650",
		"fixed_window:5/-1s":                          "per is -1s",
		"fixed_window:0/1s":                           "rate is 0",
		"fixed_window:5/1ns":                          "per is 1ns",
		"fixed_window:5/1s:burst=3":                   `"burst=3": nothing follows`,
		"token_bucket:5/1s":                           "needs burst=",
		"token_bucket:5/1s:queue=3":                   "needs burst=",
		"token_bucket:5/1s:burst=":                    `burst "" is not`,
		"token_bucket:5/1s:burst=0":                   "burst is 0",
		"token_bucket:5/1s:burst=3:more":              `burst "3:more"`,
		"leaky_bucket:5/1s:queue=1.5":                 `queue "1.5"`,
		"block_after:5/1s:block=3":                    `"3" is not a duration`,
		"block_after:5/1s:block=0s":                   "block is 0s",
		"sliding_window_log:2000000/1s":               "rate is 2000000",
		"token_bucket:99999999999999999999/s:burst=1": "rate",
	} {
		if s, err := limitspec.Parse(text); err == nil || !strings.Contains(err.Error(), names) || s != (limitspec.Spec{}) {
			t.Errorf("%s: %v, %v; want an error with %s", text, s, err, names)
		}
	}
}

// What is read can be written and read again; what is read, New accepts; and
// nothing panics.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"fixed_window:1000/d", "sliding_window_log:5/1m30s", "token_bucket:100/m:burst=20", "gcra:1/µs:burst=1", "leaky_bucket:10/1s:queue=3",
		"block_after:10/1h:block=15m", "fixed_window:5/1.5h", "fixed_window:+5/.5d", "::", "token_bucket:1/3650d:burst=9999999999999",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := limitspec.Parse(text)
		if err != nil {
			if err.Error() == "" || s != (limitspec.Spec{}) {
				t.Errorf("%q: %v, %v", text, s, err)
			}
			return
		}
		limits := []rl.Limit{s.Limit}
		if s.Limit.Burst() == 0 { // a penalty stands beside others
			limits = append(limits, rl.FixedWindow(1, time.Second))
		}
		if _, err := rl.NewMemory("fuzz", limits...); err != nil {
			t.Errorf("%q is read, and refused: %v", text, err)
		}
		if again, err := limitspec.Parse(s.String()); err != nil || again != s {
			t.Errorf("%q is written %q, read as %v, %v", text, s, again, err)
		}
	})
}
