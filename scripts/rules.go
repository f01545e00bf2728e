package scripts

import (
	"fmt"

	"github.com/redislimiter/go-redislimiter/internal/model"
)

// A spec ties a rule of the model to its Lua file.
type spec struct {
	file   string
	letter string  // begins the Redis key's segment, or names the fields in the hash
	params []int64 // in the order of the file's --@params
}

// specOf is the one place that knows which file implements which rule. alone
// tells that the limiter has no other rule.
func specOf(rule model.Rule, alone bool) (spec, error) {
	switch r := rule.(type) {
	case model.FixedWindow:
		return spec{"fixed_window.lua", "1", []int64{int64(r.Rate), r.Per.Microseconds()}}, nil
	case model.SlidingWindowCounter:
		return spec{"sliding_window_counter.lua", "2", []int64{int64(r.Rate), r.Per.Microseconds()}}, nil
	case model.BlockAfter:
		return spec{"block_after.lua", "3", []int64{int64(r.Refusals), r.Within.Microseconds(), r.Block.Microseconds()}}, nil
	case model.TokenBucket:
		return bucket("token_bucket.lua", "4", r), nil
	case model.GCRA:
		if alone {
			return bucket("gcra.lua", "gcra", r.TokenBucket), nil
		}
		return bucket("token_bucket.lua", "5", r.TokenBucket), nil
	case model.LeakyBucket:
		return bucket("token_bucket.lua", "6", r.TokenBucket), nil
	case model.SlidingWindowLog:
		window := r.Per.Microseconds()
		return spec{"sliding_window_log.lua", "log", []int64{int64(r.Rate), window, window % 997}}, nil
	}
	return spec{}, fmt.Errorf("no script for %T", rule)
}

func bucket(file, letter string, b model.TokenBucket) spec {
	return spec{file, letter, []int64{b.Size(), b.Unit(), b.Step()}}
}

// view puts the integers of a rule's reply where the model has them.
func view(rule model.Rule, reply []int64) model.View {
	switch rule.(type) {
	case model.SlidingWindowLog:
		return model.View{Used: reply[0], At: reply[1], Prev: reply[2]}
	case model.SlidingWindowCounter, model.BlockAfter:
		return model.View{At: reply[0], Used: reply[1], Prev: reply[2]}
	default:
		return model.View{At: reply[0], Used: reply[1]}
	}
}
