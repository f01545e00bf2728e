package integration_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// The suite that every limiter has to pass, on real servers in every topology. Its time is virtual: see borrowedTime.
func TestLimiterConformsOnEveryTopology(t *testing.T) {
	onEachTopology(t, func(t *testing.T, rdb redis.UniversalClient) {
		borrowed := borrowTime(t, rdb)
		limitertest.Exercise(t, func(tb testing.TB, limits ...rl.Limit) rl.Allower {
			tb.Helper()
			return newLimiter(tb, borrowed, limits...)
		})
		if borrowed.scripts() == 0 {
			t.Error("no script ran on the server")
		}
	})
}

// Random histories on every topology, decided once more by the model. See TestServersDecideAsTheModel.
func TestTopologiesDecideAsTheModel(t *testing.T) {
	seed := firstSeed()
	onEachTopology(t, func(t *testing.T, rdb redis.UniversalClient) {
		replayRandom(t, rdb, seed, *replaySteps/20)
	})
}

// A borrowedTime runs the library's scripts on a real server by the clock of the synctest bubble that calls it. What
// is before the script answers TIME from the arguments, and lets keys live longer, since real time passes at another
// rate than the bubble's: a key that is still there after its time must not matter, one that is gone before it would.
//
// go-redis stays outside the bubble, where its goroutines would keep time from passing. A goroutine of the bubble that
// waits for one outside is not idle, so time stands still until the reply is there.
type borrowedTime struct {
	*rewritten
	idle chan outsider
}

// An outsider is a goroutine outside the bubble that runs one script at a time. Its channels were made outside too.
type outsider struct {
	ask    chan question
	answer chan replied
}

type question struct{ args, more []any }

type replied struct {
	val []int64
	err error
}

const borrow = `local redis = (function(real)
  local function slow(run)
    return function(name, ...)
      local args = { ... }
      if name == "TIME" then
        return { ARGV[#ARGV - 1], ARGV[#ARGV] }
      elseif name == "PEXPIRE" then
        args[2] = args[2] * 60
      elseif name == "SET" and args[4] then
        args[4] = args[4] * 60
      end
      return run(name, unpack(args))
    end
  end
  return setmetatable({ call = slow(real.call), pcall = slow(real.pcall) }, { __index = real })
end)(redis)
`

// borrowTime keeps what tells the limiter that a client is one of several nodes.
func borrowTime(t *testing.T, rdb redis.UniversalClient) borrower {
	t.Helper()
	b := &borrowedTime{rewrite(rdb, borrow), make(chan outsider, 8)}
	ctx, cancel := context.WithCancel(context.Background())
	var outside sync.WaitGroup
	for range cap(b.idle) {
		o := outsider{make(chan question), make(chan replied)}
		outside.Go(func() { b.serve(ctx, o) })
		b.idle <- o
	}
	t.Cleanup(func() { cancel(); outside.Wait() })
	switch c := rdb.(type) {
	case *redis.ClusterClient:
		return struct {
			*borrowedTime
			manyPrimaries
		}{b, c}
	case *redis.Ring:
		return struct {
			*borrowedTime
			manyShards
		}{b, c}
	}
	return b
}

type borrower interface {
	rl.Client
	scripts() int
}

// By these methods a limiter knows that keys live on several nodes.
type (
	manyPrimaries interface {
		ForEachMaster(ctx context.Context, fn func(context.Context, *redis.Client) error) error
		MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	}
	manyShards interface {
		ForEachShard(ctx context.Context, fn func(context.Context, *redis.Client) error) error
		GetShardClientForKey(key string) (*redis.Client, error)
	}
)

// Process is called in the bubble.
func (b *borrowedTime) Process(_ context.Context, cmd redis.Cmder) error {
	now := time.Now().UnixMicro()
	o := <-b.idle
	o.ask <- question{cmd.Args(), []any{now / 1_000_000, now % 1_000_000}}
	a := <-o.answer
	b.idle <- o
	cmd.(interface{ SetVal([]int64) }).SetVal(a.val)
	cmd.SetErr(a.err)
	return a.err
}

// serve runs scripts outside the bubble.
func (b *borrowedTime) serve(ctx context.Context, o outsider) {
	for {
		select {
		case q := <-o.ask:
			val, err := b.run(q.args, q.more...)
			o.answer <- replied{val, err}
		case <-ctx.Done():
			return
		}
	}
}
