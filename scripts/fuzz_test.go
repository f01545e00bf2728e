package scripts_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	"github.com/redislimiter/go-redislimiter/internal/model"
	"github.com/redislimiter/go-redislimiter/scripts"
)

// randomRules are one to three of any algorithm, with rates from one a month, or
// a year, to a million a second and periods from a millisecond to a year.
func randomRules(random *rand.Rand) []model.Rule {
	magnitude := func(most int64) int64 { // evenly spread over the orders of magnitude
		n := int64(1)
		for n < most && random.IntN(5) > 0 {
			n = min(n*(1+random.Int64N(12)), most)
		}
		return n
	}
	var rules []model.Rule
	for want := 1 + random.IntN(3)*random.IntN(2); len(rules) < want; {
		per := time.Duration(1000*magnitude(365*24*3600*1000)+random.Int64N(1000)) * time.Microsecond
		rate, burst := int(magnitude(1_000_000)), int(magnitude(100_000))
		var rule model.Rule
		switch random.IntN(6) {
		case 0:
			rule = model.FixedWindow{Rate: rate, Per: per}
		case 1:
			rule = model.SlidingWindowLog{Rate: min(rate, 30), Per: per}
		case 2:
			rule = model.NewSlidingWindowCounter(rate, per)
		case 3:
			rule = model.NewTokenBucket(rate, per, burst)
		case 4:
			rule = model.GCRA{TokenBucket: model.NewTokenBucket(rate, per, burst)}
		case 5:
			rule = model.LeakyBucket{TokenBucket: model.NewTokenBucket(rate, per, burst)}
		}
		if rule.Validate() == nil {
			rules = append(rules, rule)
		}
	}
	if random.IntN(4) == 0 {
		span := func() time.Duration { return time.Duration(magnitude(3600*1000)) * time.Millisecond }
		rules = append(rules, model.BlockAfter{Refusals: 1 + random.IntN(3), Within: span(), Block: span()})
	}
	return rules
}

// A pair is one key by a script and by the model, on a clock that the test sets.
type pair struct {
	server *miniredis.Miniredis
	client *redis.Client
	script *scripts.Script
	rules  []model.Rule
	states []model.State
	now    int64
	ends   map[string]int64 // when keys expire, in milliseconds
	stale  bool             // the rules were changed, and nothing was written since
}

// unchanged is what the time to live of a key has beyond whole milliseconds until
// a script sets it.
const unchanged = 7 * time.Nanosecond

// expire does what a server does: keys end at an absolute time of its clock,
// also when that is stepped, and only once their millisecond is over. The
// embedded server counts what has passed.
func (p *pair) expire(tb testing.TB) {
	tb.Helper()
	for key, end := range p.ends {
		if !p.server.Exists(key) { // all of a log was given back
			delete(p.ends, key)
			continue
		}
		if p.now/1000 > end {
			p.server.Del(key)
			delete(p.ends, key)
			p.forget(tb, key)
			continue
		}
		p.server.SetTTL(key, time.Duration(end-p.now/1000)*time.Millisecond+unchanged)
	}
}

// forget makes the model forget what a key held. It must not matter any more,
// unless the clock steps back after it has expired.
func (p *pair) forget(tb testing.TB, key string) {
	tb.Helper()
	logs := 0
	for i, rule := range p.rules {
		segment := "h"
		switch rule.(type) {
		case model.SlidingWindowLog:
			segment = fmt.Sprint("log", logs)
			logs++
		case model.GCRA:
			if len(p.rules) == 1 {
				segment = "gcra0"
			}
		}
		if key != "rl:t:"+segment+":{k}" {
			continue
		}
		if left := rule.Reset(rule.See(&p.states[i], p.now), p.now); left > 0 && !p.stale {
			tb.Fatalf("%+v at %d: key %q expired %dµs too early", p.rules, p.now, key, left)
		}
		p.states[i] = model.State{}
	}
}

func (p *pair) noteEnds(tb testing.TB) {
	tb.Helper()
	for _, key := range p.server.Keys() {
		switch ttl := p.server.TTL(key); {
		case ttl == 0:
			tb.Fatalf("%+v: key %q without expiry", p.rules, key)
		case ttl%time.Millisecond != unchanged:
			p.ends[key] = p.now/1000 + ttl.Milliseconds()
		}
	}
}

func newPair(tb testing.TB, rules []model.Rule) *pair {
	tb.Helper()
	server, client := limitertest.Redis(tb)
	server.ClockTTL(false)
	script, err := scripts.New(rules)
	if err != nil {
		tb.Fatal(err)
	}
	return &pair{ends: map[string]int64{}, server: server, client: client, script: script, rules: rules, states: make([]model.State, len(rules)), now: 1_800_000_000_000_000}
}

func (p *pair) eval(tb testing.TB, s *scripts.Script, more ...any) []int64 {
	tb.Helper()
	p.server.SetTime(time.UnixMicro(p.now))
	p.expire(tb)
	keys := make([]string, len(p.script.Segments))
	for i, segment := range p.script.Segments {
		keys[i] = "rl:t:" + segment + ":{k}"
	}
	args := make([]any, 0, len(p.script.Args)+2)
	for _, a := range p.script.Args {
		args = append(args, a)
	}
	reply, err := p.client.Eval(context.Background(), s.Text, keys, append(args, more...)...).Int64Slice()
	if err != nil && !errors.Is(err, redis.Nil) {
		tb.Fatalf("%+v: %v", p.rules, err)
	}
	p.noteEnds(tb)
	return reply
}

// charge charges both, and fails if anything differs.
func (p *pair) charge(tb testing.TB, c model.Charge) model.Taken {
	tb.Helper()
	count := c.Count
	if c.AtMost {
		count = -count
	}
	got := model.Taken{Charge: c}
	if _, err := p.script.Decode(p.eval(tb, p.script, c.Cost, count), 0, &got); err != nil {
		tb.Fatal(err)
	}
	want := model.Take(p.rules, p.states, p.now, c)
	for i := range c.Count {
		if a, b := got.Request(p.rules, i), want.Request(p.rules, i); a != b {
			tb.Fatalf("%+v at %d, %+v, request %d:\nby the script %+v of %+v\nby the model  %+v of %+v", p.rules, p.now, c, i, a, got, b, want)
		}
	}
	if got.Granted != want.Granted || got.Now != want.Now {
		tb.Fatalf("%+v at %d, %+v: granted %d at %d, want %d", p.rules, p.now, c, got.Granted, got.Now, want.Granted)
	}
	if want.Changed(p.rules) {
		p.stale = false
	}
	return want
}

func (p *pair) refund(tb testing.TB, n, since int64) {
	tb.Helper()
	p.eval(tb, p.script.Refund, n, since)
	for i, rule := range p.rules {
		rule.Refund(&p.states[i], p.now, since, n)
	}
}

// Whatever is asked for and wherever the clock goes, backwards included, the
// scripts reply what the model says.
func FuzzScriptsDecideAsTheModel(f *testing.F) {
	for seed := range uint64(12) {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, seed uint64) {
		random := rand.New(rand.NewPCG(seed, 7))
		p := newPair(t, randomRules(random))
		capacity := p.rules[0].Capacity()
		per := int64(1000)
		for _, r := range p.rules {
			capacity = min(capacity, r.Capacity())
			per = max(per, r.Reset(r.After(r.See(&model.State{}, p.now), p.now, r.Capacity()%model.Unlimited), p.now))
		}
		var last model.Decision
		for range 60 {
			moveClock(random, p, last, per)
			c := model.Charge{Cost: random.Int64N(min(capacity, 40) + 1), Count: 1 + random.Int64N(3)*random.Int64N(2)}
			switch random.IntN(8) {
			case 0:
				c.Cost = min(capacity, 2000)
			case 1:
				c = model.Charge{Cost: 1, Count: 1 + random.Int64N(min(capacity, 50)), AtMost: true}
			case 2:
				p.refund(t, 1+random.Int64N(min(capacity, 9)), p.now-random.Int64N(per))
			}
			taken := p.charge(t, c)
			last = taken.Request(p.rules, c.Count-1)
		}
	})
}

func moveClock(random *rand.Rand, p *pair, last model.Decision, per int64) {
	switch random.IntN(9) {
	case 0, 1:
	case 2:
		p.now += last.Retry
	case 3:
		p.now += max(last.Retry-1, 0)
	case 4:
		p.now += last.Reset
	case 5:
		p.now += random.Int64N(per/4 + 1)
	case 6:
		p.now += random.Int64N(10)
	case 7:
		p.now += random.Int64N(2*per + 1)
	case 8: // an older clock
		if random.IntN(3) == 0 {
			p.now = max(p.now-random.Int64N(3*per+1), 1_000_000_000_000_000)
		}
	}
}

// A clock that was far ahead, or is behind, locks nobody out for that long and
// never opens the limit for long.
func TestBrokenClocks(t *testing.T) {
	for _, rule := range []model.Rule{
		model.FixedWindow{Rate: 5, Per: time.Minute}, model.SlidingWindowLog{Rate: 5, Per: time.Minute},
		model.NewSlidingWindowCounter(5, time.Minute), model.NewTokenBucket(5, time.Minute, 5),
		model.GCRA{TokenBucket: model.NewTokenBucket(5, time.Minute, 5)},
	} {
		for name, step := range map[string]time.Duration{"an hour ahead": -time.Hour, "30 s behind": -30 * time.Second} {
			t.Run(fmt.Sprintf("%T/%s", rule, name), func(t *testing.T) {
				p := newPair(t, []model.Rule{rule})
				p.charge(t, model.Charge{Cost: 5, Count: 1})
				p.now += step.Microseconds() // the new primary's clock
				admitted, start := int64(0), p.now
				longest, waited := int64(0), start
				for p.now < start+10*time.Minute.Microseconds() {
					if taken := p.charge(t, model.Charge{Cost: 1, Count: 1}); taken.Granted > 0 {
						admitted++
						waited = p.now
					}
					longest = max(longest, p.now-waited)
					p.now += time.Second.Microseconds()
				}
				// Ten windows, what had been used before, and a burst.
				if admitted > 60 {
					t.Errorf("admitted %d in ten minutes at 5 a minute", admitted)
				}
				if limit := 2*time.Minute + 30*time.Second; longest > limit.Microseconds() {
					t.Errorf("refused everything for %v", time.Duration(longest)*time.Microsecond)
				}
			})
		}
	}
}
