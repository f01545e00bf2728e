package scripts_test

import (
	"context"
	"fmt"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	"github.com/redislimiter/go-redislimiter/internal/model"
	"github.com/redislimiter/go-redislimiter/scripts"
)

// counted runs a script so that its last integer is the number of redis.calls.
func counted(t *testing.T, client *redis.Client, s *scripts.Script, cost, count int) (granted int64, calls int64) {
	t.Helper()
	text := `local real, calls = redis, 0
local redis = {
  call = function(...) calls = calls + 1 return real.call(...) end,
  pcall = function(...) calls = calls + 1 return real.pcall(...) end,
}
` + strings.TrimSuffix(strings.TrimSpace(s.Text), "return reply") + "reply[#reply + 1] = calls\nreturn reply"
	keys := make([]string, len(s.Segments))
	for i, segment := range s.Segments {
		keys[i] = "rl:t:" + segment + ":{k}"
	}
	args := make([]any, 0, len(s.Args)+2)
	for _, a := range s.Args {
		args = append(args, a)
	}
	reply, err := client.Eval(context.Background(), text, keys, append(args, cost, count)...).Int64Slice()
	if err != nil {
		t.Fatal(err)
	}
	return reply[0], reply[len(reply)-1]
}

// What a decision costs the server is a promise of the files' headers.
func TestCallsOfADecision(t *testing.T) {
	for _, test := range []struct {
		rule          model.Rule
		admit, refuse int64
	}{
		{model.NewTokenBucket(3, time.Hour, 3), 4, 2},
		{model.SlidingWindowLog{Rate: 3, Per: time.Hour}, 5, 3},
	} {
		t.Run(fmt.Sprintf("%T", test.rule), func(t *testing.T) {
			_, client := limitertest.Redis(t)
			s, err := scripts.New([]model.Rule{test.rule})
			if err != nil {
				t.Fatal(err)
			}
			for i := range 5 {
				granted, calls := counted(t, client, s, 1, 1)
				if (granted == 1) != (i < 3) {
					t.Fatalf("call %d: granted %d", i, granted)
				}
				most := test.admit
				if granted == 0 {
					most = test.refuse
				}
				if calls > most {
					t.Errorf("call %d, granted %d: %d redis.calls, at most %d promised", i, granted, calls, most)
				}
			}
			if _, calls := counted(t, client, s, 0, 1); calls > test.refuse {
				t.Errorf("a look: %d redis.calls", calls)
			}
		})
	}
}

// Limiters of the same algorithms share one script, whatever their parameters.
func TestScriptsAreShared(t *testing.T) {
	a, errA := scripts.New([]model.Rule{model.NewTokenBucket(3, time.Hour, 3)})
	b, errB := scripts.New([]model.Rule{model.NewTokenBucket(7, time.Second, 9)})
	c, errC := scripts.New([]model.Rule{model.SlidingWindowLog{Rate: 3, Per: time.Hour}})
	if errA != nil || errB != nil || errC != nil {
		t.Fatal(errA, errB, errC)
	}
	if a.SHA != b.SHA || a.SHA == c.SHA {
		t.Fatal(a.SHA, b.SHA, c.SHA)
	}
}

// Numbers of more than 14 digits lose some of them in Lua's own conversions.
func TestNoTimestampIsMadeTextByLua(t *testing.T) {
	concatenated := regexp.MustCompile(`\.\.|tostring`)
	for _, rules := range [][]model.Rule{
		{model.NewTokenBucket(1, time.Second, 1), model.SlidingWindowLog{Rate: 1, Per: time.Second}},
	} {
		s, err := scripts.New(rules)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(s.Text) {
			if concatenated.MatchString(line) && !strings.Contains(line, "string.match") {
				t.Errorf("%s", line)
			}
		}
	}
}
