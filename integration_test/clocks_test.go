package integration_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A clock decides by the server's clock set forward or back, as if another primary with a wrong clock had taken over
// with the same data.
type clock struct {
	*rewritten
	ahead atomic.Int64 // seconds
}

const wrongClock = `local redis = (function(real)
  local function wrong(run)
    return function(name, ...)
      local answer = run(name, ...)
      if name == "TIME" then
        answer[1] = answer[1] + ARGV[#ARGV]
      end
      return answer
    end
  end
  return setmetatable({ call = wrong(real.call), pcall = wrong(real.pcall) }, { __index = real })
end)(redis)
`

func newClock(rdb rl.Client) *clock { return &clock{rewritten: rewrite(rdb, wrongClock)} }

func (c *clock) set(ahead time.Duration) { c.ahead.Store(int64(ahead / time.Second)) }

func (c *clock) Process(_ context.Context, cmd redis.Cmder) error {
	val, err := c.run(cmd.Args(), c.ahead.Load())
	cmd.(interface{ SetVal([]int64) }).SetVal(val)
	cmd.SetErr(err)
	return err
}

const (
	clockLimit = 48 // two units an hour of a day
	slack      = 5 * time.Second
	day        = 24 * time.Hour
)

// A failover between clocks that differ: by how much the new one is behind the old one, and the span of the limit.
var failovers = []struct {
	name   string
	behind time.Duration
	per    time.Duration
	held   bool // whether the state is still believed
}{
	{"30 s behind, spans of an hour", 30 * time.Second, time.Hour, true},
	{"30 s behind, spans of 5 s", 30 * time.Second, 5 * time.Second, false},
	{"after one that was an hour ahead, spans of a day", time.Hour, day, true},
	{"after one that was an hour ahead, spans of a minute", time.Hour, time.Minute, false},
}

// Nobody is locked out for longer than the span and what the clock fell back, and nothing is credited twice: a key is
// held until the clock has caught up, or starts afresh once.
func TestFailoverToAClockThatIsBehind(t *testing.T) {
	onEach(t, func(t *testing.T, kind servers.Kind) {
		rdb := dial(t, servers.Shared(t, kind))
		for _, f := range failovers {
			t.Run(f.name, func(t *testing.T) {
				eachAlgorithm(t, func(t *testing.T, a limitertest.Algorithm) {
					c := newClock(rdb)
					l := newLimiter(t, c, a.Make(clockLimit, f.per))
					c.set(f.behind)
					allow(t, l, "k", clockLimit, true)
					before := allow(t, l, "k", clockLimit, false)
					c.set(0)
					if !f.held {
						afresh(t, l, f.per)
					} else if now := allow(t, l, "k", clockLimit, false); now.RetryAfter > before.RetryAfter+f.behind ||
						now.RetryAfter < before.RetryAfter-slack {
						t.Errorf("wait of %v, it was %v and the clock fell back by %v", now.RetryAfter, before.RetryAfter, f.behind)
					}
					if n := wantExpiry(t, rdb, l.Name()); n == 0 {
						t.Error("no key")
					}
				})
			})
		}
	})
}

// afresh checks that a key has its whole limit, once, and its ordinary wait.
func afresh(t *testing.T, l *rl.Limiter, per time.Duration) {
	t.Helper()
	allow(t, l, "k", clockLimit, true)
	if r := allow(t, l, "k", 1, false); r.RetryAfter > 2*per {
		t.Errorf("wait of %v after a start afresh, the span is %v", r.RetryAfter, per)
	}
}

// Clocks that differ by an hour take turns. The hour is credited once, not with each turn.
func TestClocksThatTakeTurns(t *testing.T) {
	onEach(t, func(t *testing.T, kind servers.Kind) {
		rdb := dial(t, servers.Shared(t, kind))
		eachAlgorithm(t, func(t *testing.T, a limitertest.Algorithm) {
			c := newClock(rdb)
			l := newLimiter(t, c, a.Make(clockLimit, day))
			admitted := 0
			for turn := range 8 {
				c.set(time.Duration(turn%2) * time.Hour)
				for range 2 {
					n, _, err := l.AllowAtMost(t.Context(), "k", clockLimit)
					if err != nil {
						t.Fatal(err)
					}
					admitted += n
				}
			}
			const anHour = clockLimit/24 + 1
			if admitted < clockLimit || admitted > clockLimit+anHour {
				t.Errorf("admitted %d, want %d and what an hour brings, %d at most", admitted, clockLimit, anHour)
			}
			t.Logf("admitted %d of %d in 8 turns", admitted, clockLimit)
		})
	})
}
