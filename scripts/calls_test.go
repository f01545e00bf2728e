package scripts_test

import (
	"context"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/redislimiter/go-redislimiter/internal/model"
)

// A bucket that is drained and then used at about its rate costs four calls with a charge, and
// rarely a fifth: its key may live longer than is known of it.
func TestChargesSeldomTakeAFifthCall(t *testing.T) {
	five, all := 0, 0
	for seed := range uint64(10) {
		random := rand.New(rand.NewPCG(seed, 5))
		p := newPair(t, []model.Rule{model.NewTokenBucket(100, 60_000_000_000, 20)})
		counting := strings.NewReplacer(
			"local call, pcall, tonumber = redis.call, redis.pcall, tonumber", `local count, tonumber = 0, tonumber
				local function call(...) count = count + 1 return redis.call(...) end
				local function pcall(...) count = count + 1 return redis.pcall(...) end`,
			"return reply", "redis.call('SET', 'count', count, 'PX', 3600000) return reply").Replace(p.script.Text)
		p.charge(t, model.Charge{Cost: 20, Count: 1})
		for range 200 {
			p.now += 600_000 + random.Int64N(300_000)
			decide := *p.script
			decide.Text = counting
			p.eval(t, &decide, 1, 1)
			if n, err := p.client.Get(context.Background(), "count").Int(); err != nil || n < 3 || n > 5 {
				t.Fatalf("seed %d: %d calls, %v", seed, n, err)
			} else if n == 5 {
				five++
			}
			all++
		}
	}
	t.Logf("%d of %d charges took a fifth call", five, all)
	if five > all/50 {
		t.Errorf("%d of %d charges took a fifth call", five, all)
	}
}
