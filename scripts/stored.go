package scripts

import (
	"strconv"
	"strings"

	"github.com/redislimiter/go-redislimiter/internal/model"
)

// What is stored can be read without the limits, by tools: names of segments
// and fields tell the algorithm.

// A Stored is what a Redis key holds of one rule.
type Stored struct {
	Part      string // as Script.Parts has it
	Algorithm string
	State     model.State // but for the log, whose units stay in Redis
	Unit      int64       // so many of State.Used are one unit of the limit
}

// The letters of specOf, in words.
var algorithms = map[string]string{
	"1": "fixed window", "2": "sliding window counter", "3": "block", "4": "token bucket", "5": "GCRA", "6": "leaky bucket",
	"gcra": "GCRA", "log": "sliding window log",
}

// AllSegments are those of every key that an id can have under one name.
func AllSegments() []string {
	all := []string{"h", "gcra0"}
	for place := range model.MaxRules {
		all = append(all, "log"+strconv.Itoa(place))
	}
	return all
}

// ReadHash takes the hash apart; the parts are in no order. It leaves out what
// is not the library's.
func ReadHash(fields map[string]string) map[string]Stored {
	found := map[string]Stored{}
	for part, text := range fields {
		if len(part) != 2 || part[0] < '1' || part[0] > '6' || part[1] < '0' || part[1] >= '0'+model.MaxRules {
			continue
		}
		if s, ok := readText(part, text); ok {
			found[part] = s
		}
	}
	return found
}

// ReadString takes apart what gcra.lua stores. It reports false for what is not
// the library's.
func ReadString(text string) (Stored, bool) { return readText("gcra0", text) }

// filesOf tells where the fields of an algorithm are named.
var filesOf = map[string]string{
	"1": "fixed_window.lua", "2": "sliding_window_counter.lua", "3": "block_after.lua",
	"4": "token_bucket.lua", "5": "token_bucket.lua", "6": "token_bucket.lua", "gcra": "gcra.lua",
}

func readText(part, text string) (Stored, bool) {
	letter := part[:len(part)-1]
	src := read(filesOf[letter])
	numbers, ok := src.numbers(text)
	if !ok {
		return Stored{}, false
	}
	s := Stored{Part: part, Algorithm: algorithms[letter], Unit: 1}
	for i, name := range src.fields {
		switch name {
		case "stamp":
			s.State.Stamp = numbers[i]
		case "used":
			s.State.Used = numbers[i]
		case "prev":
			s.State.Prev = numbers[i]
		case "coin":
			s.Unit = numbers[i]
		}
	}
	return s, true
}

// Log is what a segment of a sorted set holds, or false.
func Log(segment string) (Stored, bool) {
	return Stored{Part: segment, Algorithm: algorithms["log"], Unit: 1}, strings.HasPrefix(segment, "log")
}
