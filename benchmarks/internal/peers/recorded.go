package peers

import (
	"context"
	"errors"
	"fmt"

	"github.com/go-redis/redis_rate/v10"
	"github.com/redis/go-redis/v9"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/load"
	"github.com/redislimiter/go-redislimiter/internal/model"
	"github.com/redislimiter/go-redislimiter/scripts"
)

// A Call is a script with what it takes, to be sent without its limiter: in
// pipelines that fill a server, and with many keys at once.
type Call struct {
	Script *redis.Script
	Keys   []string
	Args   []any
}

// Send puts the call into a pipeline. The server has to know the script.
func (c Call) Send(ctx context.Context, to redis.Pipeliner) {
	to.EvalSha(ctx, c.Script.Hash(), c.Keys, c.Args...)
}

// OurCall charges n units to each of several keys in one call of our script,
// as a shared trip does.
func OurCall(algorithm string, q Quota, n int, keys ...string) (Call, error) {
	script, err := joined(algorithm, q)
	if err != nil {
		return Call{}, err
	}
	c := Call{Script: script.sent}
	for _, arg := range script.Args {
		c.Args = append(c.Args, arg)
	}
	for _, key := range keys {
		c.Keys = append(c.Keys, fmt.Sprintf("rl:bench:%s:{%s}", script.Segments[0], key))
		c.Args = append(c.Args, n, 1)
	}
	return c, nil
}

// A joinedScript is one of ours, and what go-redis sends.
type joinedScript struct {
	*scripts.Script
	sent *redis.Script
}

// joinedScripts remembers them, since a server is filled by very many calls.
var joinedScripts = map[string]joinedScript{}

func joined(algorithm string, q Quota) (joinedScript, error) {
	name := fmt.Sprint(algorithm, q)
	if s, ok := joinedScripts[name]; ok {
		return s, nil
	}
	script, err := scripts.New([]model.Rule{rule(algorithm, q)})
	if err != nil {
		return joinedScript{}, err
	}
	s := joinedScript{script, redis.NewScript(script.Text)}
	joinedScripts[name] = s
	return s, nil
}

func rule(algorithm string, q Quota) model.Rule {
	switch algorithm {
	case GCRA:
		return model.GCRA{TokenBucket: model.NewTokenBucket(q.Rate, q.Per, q.Burst)}
	case Counter:
		return model.NewSlidingWindowCounter(q.Burst, q.Per)
	case Hits:
		return model.SlidingWindowLog{Rate: min(q.Burst, 1_000_000), Per: q.Per}
	default:
		return model.NewTokenBucket(q.Rate, q.Per, q.Burst)
	}
}

// RedisRateCall is what redis_rate would send for n units of a key. It does
// not export its script, but hands it to the client.
func RedisRateCall(q Quota, n int, key string) (Call, error) {
	r := &recorder{}
	_, err := redis_rate.NewLimiter(r).AllowN(context.Background(), key, redis_rate.Limit{Rate: q.Rate, Period: q.Per, Burst: q.Burst}, n)
	if r.call.Script == nil {
		return Call{}, fmt.Errorf("redis_rate sent no script: %w", err)
	}
	return r.call, nil
}

// redisRateScript is made once, like ours.
var redisRateScript *redis.Script

// A recorder is a client that knows no script, so that it is shown it.
type recorder struct {
	*redis.Client // nil: any other command would panic
	call          Call
}

type noScript string

func (e noScript) Error() string { return string(e) }
func (noScript) RedisError()     {}

func (r *recorder) EvalSha(ctx context.Context, _ string, _ []string, _ ...any) *redis.Cmd {
	return failed(ctx, noScript("NOSCRIPT No matching script."))
}

func (r *recorder) Eval(ctx context.Context, script string, keys []string, args ...any) *redis.Cmd {
	if redisRateScript == nil {
		redisRateScript = redis.NewScript(script)
	}
	r.call = Call{redisRateScript, keys, args}
	return failed(ctx, errors.New("recorded"))
}

func failed(ctx context.Context, err error) *redis.Cmd {
	cmd := redis.NewCmd(ctx)
	cmd.SetErr(err)
	return cmd
}

// Many is a limiter whose every decision is one call of our script for n keys,
// picked from a crowd of a thousand.
func Many(rdb redis.UniversalClient, algorithm string, q Quota, n int) (load.Decide, error) {
	const crowd = 1000
	var calls []Call
	for first := 0; first < crowd; first += n {
		keys := make([]string, n)
		for i := range keys {
			keys[i] = load.Key(first + i)
		}
		call, err := OurCall(algorithm, q, 1, keys...)
		if err != nil {
			return nil, err
		}
		calls = append(calls, call)
	}
	next := 0
	return func(ctx context.Context, _ string) (bool, error) {
		c := calls[next%len(calls)]
		next++
		return true, c.Script.Run(ctx, rdb, c.Keys, c.Args...).Err()
	}, nil
}
