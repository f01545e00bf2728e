package integration_test

import (
	"flag"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

var (
	replaySteps = flag.Int("steps", 60_000, "random decisions to replay, on all kinds of servers together")
	replaySeed  = flag.Uint64("seed", 0, "of the random histories; 0 takes one from the clock")
)

// A step is one decision of a real server.
type step struct {
	key string
	n   int
	now int64 // the server's clock, from the reply, in microseconds
	got rl.Result
}

// A history is all that one limiter was asked.
type history struct {
	seed   uint64
	limits []rl.Limit
	steps  []step
	err    error
}

// Random histories on real servers, decided once more by the model, which Memory is, at the instants by which the
// server decided. All results must be the same, to the microsecond.
func TestServersDecideAsTheModel(t *testing.T) {
	seed := firstSeed()
	onEachShared(t, func(t *testing.T, rdb *redis.Client) {
		t.Parallel() // nothing is measured in time
		replayRandom(t, rdb, seed, *replaySteps/len(servers.Kinds()))
	})
}

// replayRandom makes so many random decisions, and replays them.
func replayRandom(t *testing.T, rdb rl.Client, seed uint64, steps int) {
	t.Helper()
	var sum summary
	for h := range record(t.Context(), rdb, seed, steps) {
		sum.add(h)
		h.replay(t)
	}
	t.Logf("%v (-seed %d)", &sum, seed)
	if sum.refused == 0 || sum.admitted == 0 {
		t.Error("the histories are not worth replaying")
	}
}

func firstSeed() uint64 {
	seed := *replaySeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	return seed
}

// replay lets the model decide, in a bubble whose clock it sets to what the server's was.
func (h history) replay(t *testing.T) {
	t.Helper()
	if h.err != nil {
		t.Fatalf("seed %d, %v, after %d steps: %v", h.seed, h.limits, len(h.steps), h.err)
	}
	synctest.Test(t, func(t *testing.T) {
		model, err := rl.NewMemory("model", h.limits...)
		if err != nil {
			t.Fatal(err)
		}
		for i, s := range h.steps {
			wait := time.Until(time.UnixMicro(s.now))
			if wait < 0 {
				t.Fatalf("this machine's clock was set back by %v during the test: run it again", -wait)
			}
			time.Sleep(wait)
			want, err := model.AllowN(t.Context(), s.key, s.n)
			if err != nil {
				t.Fatal(err)
			}
			if !limitertest.SameDecision(s.got, want) {
				t.Fatalf("seed %d step %d, AllowN(%d) of %v\nby the server: %v\nby the model:  %v\nbefore it:%s",
					h.seed, i, s.n, h.limits, decision(s.got), decision(want), h.before(i))
			}
		}
	})
}

// before tells the last steps on the key of step i.
func (h history) before(i int) string {
	var lines []string
	for j := i - 1; j >= 0 && len(lines) < 8; j-- {
		if s := h.steps[j]; s.key == h.steps[i].key {
			ago := time.Duration(h.steps[i].now-s.now) * time.Microsecond
			lines = append(lines, fmt.Sprintf("\n  %v ago AllowN(%d): %v", ago, s.n, decision(s.got)))
		}
	}
	return strings.Join(lines, "")
}

func decision(r rl.Result) string {
	return fmt.Sprintf("allowed %v by %v, remaining %d, retry %v, reset %v",
		r.Allowed, r.Limit, r.Remaining, r.RetryAfter, r.ResetAfter)
}

// A summary tells what histories were about.
type summary struct{ steps, admitted, refused, looks, fresh int }

func (s *summary) add(h history) {
	for _, step := range h.steps {
		s.steps++
		switch {
		case step.n == 0:
			s.looks++
		case step.got.Allowed:
			s.admitted++
		default:
			s.refused++
		}
		if step.n == 0 && step.got.ResetAfter == 0 {
			s.fresh++
		}
	}
}

func (s *summary) String() string {
	return fmt.Sprintf("%d decisions agree: %d admitted, %d refused, %d looks (%d at an unused key)",
		s.steps, s.admitted, s.refused, s.looks, s.fresh)
}
