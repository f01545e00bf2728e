package scripts

import (
	"fmt"
	"strconv"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/model"
)

// A spec ties a rule of the model to its Lua file.
type spec struct {
	file   string
	letter string  // begins the Redis key's segment, or names the fields in the hash
	scale  string  // goes in front of the name of the field `used`: the unit it is in and the rate, or the period
	params []int64 // in the order of the file's --@params
}

// specOf is the one place that knows which file implements which rule. alone
// tells that the limiter has no other rule.
func specOf(rule model.Rule, alone bool) (spec, error) {
	switch r := rule.(type) {
	case model.FixedWindow:
		return spec{"fixed_window.lua", "1", period(r.Per), []int64{int64(r.Rate), r.Per.Microseconds()}}, nil
	case model.SlidingWindowCounter:
		return spec{"sliding_window_counter.lua", "2", period(r.Per), []int64{int64(r.Rate), r.Per.Microseconds(), r.Steps(), r.Quantum()}}, nil
	case model.BlockAfter:
		return spec{"block_after.lua", "3", period(r.Within), []int64{int64(r.Refusals), r.Within.Microseconds(), r.Block.Microseconds()}}, nil
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
		return spec{"sliding_window_log.lua", "log", "", []int64{int64(r.Rate), window, window % 997}}, nil
	}
	return spec{}, fmt.Errorf("no script for %T", rule)
}

// period is what the name of a field tells of it: one unit is one of the limit.
func period(d time.Duration) string { return fmt.Sprint("1/", d.Microseconds()) }

func bucket(file, letter string, b model.TokenBucket) spec {
	scale := strconv.FormatInt(b.Unit(), 10)
	if b.Step() != 1 {
		scale += "/" + strconv.FormatInt(b.Step(), 10)
	}
	return spec{file, letter, scale, []int64{b.Size(), b.Unit(), b.Step()}}
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

// fieldNames names a rule's fields in the hash. The names are short integers,
// which Redis stores in a few bytes: the algorithm's digit and the rule's
// place among those of its algorithm, behind whatever tells the fields of one rule
// apart. They are part of the script's text, except where they tell a unit.
func (p *part) fieldNames(s spec) {
	p.ending = s.letter + strconv.Itoa(p.place)
	for i, field := range p.fields {
		switch {
		case i == 0:
			p.names = append(p.names, strconv.Quote(p.ending))
		case field == "used" && s.scale != "":
			p.scaled = s.scale + p.ending
			p.names = append(p.names, "name"+strconv.Itoa(p.number))
		default:
			p.names = append(p.names, strconv.Quote(strconv.Itoa(i)+p.ending))
		}
	}
}
