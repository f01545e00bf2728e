package scripts

import (
	"fmt"
	"strconv"

	"github.com/redislimiter/go-redislimiter/internal/model"
)

// A spec ties a rule of the model to its Lua file.
type spec struct {
	file   string
	letter string  // begins the Redis key's segment, or names the fields in the hash
	scale  int64   // goes in front of the name of the field `used`; 0 = no scale
	params []int64 // in the order of the file's --@params
}

// specOf is the one place that knows which file implements which rule.
func specOf(rule model.Rule) (spec, error) {
	switch r := rule.(type) {
	case model.TokenBucket:
		return spec{"token_bucket.lua", "4", r.Unit(), []int64{r.Size(), r.Unit(), r.Step()}}, nil
	case model.SlidingWindowLog:
		return spec{"sliding_window_log.lua", "log", 0, []int64{int64(r.Rate), r.Per.Microseconds()}}, nil
	}
	return spec{}, fmt.Errorf("no script for %T", rule)
}

// view puts the integers of a rule's reply where the model has them.
func view(rule model.Rule, reply []int64) model.View {
	switch rule.(type) {
	case model.SlidingWindowLog:
		return model.View{Used: reply[0], At: reply[1], Prev: reply[2]}
	default:
		return model.View{At: reply[0], Used: reply[1]}
	}
}

// fieldNames are the names of a rule's fields in the hash. They are short
// integers, which Redis stores in one to five bytes: the algorithm's digit and
// the rule's place among those of its algorithm, behind whatever tells the
// fields of one rule apart.
func (s spec) fieldNames(fields []string, place int) []string {
	ending := s.letter + strconv.Itoa(place)
	names := make([]string, len(fields))
	for i, field := range fields {
		switch {
		case i == 0:
			names[i] = ending
		case field == "used" && s.scale > 0:
			names[i] = strconv.FormatInt(s.scale, 10) + ending
		default:
			names[i] = strconv.Itoa(i) + ending
		}
	}
	return names
}
