package scripts_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/model"
	"github.com/redislimiter/go-redislimiter/scripts"
)

// counting makes a script that leaves in the key count how many calls it made.
func counting(s *scripts.Script) *scripts.Script {
	return &scripts.Script{Text: strings.NewReplacer(
		"local call, pcall = redis.call, redis.pcall", `local count = 0
			local function call(...) count = count + 1 return redis.call(...) end
			local function pcall(...) count = count + 1 return redis.pcall(...) end`,
		"return reply", "redis.call('SET', 'count', count, 'PX', 3600000) return reply").Replace(s.Text)}
}

// However a bucket is used, a charge costs four calls at most and a refusal two, as long as nobody else changes its key.
func TestBucketsTakeFourCalls(t *testing.T) {
	calls := [5]int{}
	for seed := range uint64(20) {
		random := rand.New(rand.NewPCG(seed, 5))
		p := newPair(t, []model.Rule{model.NewTokenBucket(100, 60_000_000_000, 20)})
		p.charge(t, model.Charge{Cost: 20, Count: 1})
		for range 200 {
			p.now += random.Int64N(1_200_000)
			if random.IntN(50) == 0 {
				p.now += random.Int64N(20_000_000)
			}
			if random.IntN(5) == 0 {
				p.refund(t, 1+random.Int64N(9), p.now)
			}
			granted := p.eval(t, counting(p.script), 1+random.Int64N(3), 1)[0]
			n, err := p.client.Get(context.Background(), "count").Int()
			if most := 2 + 2*int(granted); err != nil || n < 2 || n > most {
				t.Fatalf("seed %d: granted %d by %d calls, %v", seed, granted, n, err)
			}
			calls[n]++
		}
	}
	t.Logf("two calls: %d, three: %d, four: %d", calls[2], calls[3], calls[4])
	if slices.Min(calls[2:]) == 0 {
		t.Error("not everything was tried")
	}
}

// A key that somebody made persistent gets its expiry back, by a fifth call.
func TestAFifthCallHeals(t *testing.T) {
	p := newPair(t, []model.Rule{model.NewTokenBucket(100, 60_000_000_000, 20)})
	p.charge(t, model.Charge{Cost: 1, Count: 1})
	key := "rl:t:h:{k}"
	p.server.SetTTL(key, 0)
	delete(p.ends, key)
	for range 4 {
		p.server.SetTime(time.UnixMicro(p.now))
		args := []any{}
		for _, a := range p.script.Args {
			args = append(args, a)
		}
		if err := p.client.Eval(context.Background(), counting(p.script).Text, []string{key}, append(args, 1, 1)...).Err(); err != nil {
			t.Fatal(err)
		}
		n, err := p.client.Get(context.Background(), "count").Int()
		if healed := p.server.TTL(key) > 0; err != nil || healed != (n == 5) && n > 4 {
			t.Fatalf("%d calls, healed: %v, %v", n, healed, err)
		} else if healed {
			return
		}
		p.now += 400_000
	}
	t.Error("the key still has no expiry")
}
