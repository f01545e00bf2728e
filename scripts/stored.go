package scripts

import (
	"encoding/binary"
	"math"
	"regexp"
	"strconv"
	"strings"

	"github.com/redislimiter/go-redislimiter/internal/model"
)

// What is stored can be read without the limits, by tools: names of segments
// and fields tell the algorithm. They do not tell rates or sizes.

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

var field = regexp.MustCompile(`^(\d*)(?:/\d+)?([1-6][0-7])$`)

// ReadHash takes the hash apart; the parts are in no order. It leaves out what
// is not the library's.
func ReadHash(fields map[string]string) map[string]Stored {
	found := map[string]Stored{}
	for name, value := range fields {
		m := field.FindStringSubmatch(name)
		n, err := strconv.ParseFloat(value, 64) // Lua may have written an exponent
		if m == nil || err != nil {
			continue
		}
		part := m[2]
		s := found[part]
		s.Part, s.Algorithm = part, algorithms[part[:1]]
		s.set(m[1], int64(n))
		found[part] = s
	}
	return found
}

// set takes a field by what stands in front of the rule's ending.
func (s *Stored) set(front string, n int64) {
	scaled := s.Part[0] >= '4'
	switch {
	case front == "":
		s.State.Stamp = n
	case scaled:
		s.Unit, _ = strconv.ParseInt(front, 10, 64)
		s.State.Used = n
	case front == "1":
		s.Unit, s.State.Used = 1, n
	case front == "2":
		s.State.Prev = n
	}
}

// ReadString takes apart what gcra.lua stores. It reports false for what is not
// the library's.
func ReadString(text string) (Stored, bool) {
	s := Stored{Part: "gcra0", Algorithm: algorithms["gcra"]}
	parts := strings.Split(text, ":")
	packed := len(text) == 24
	for i, to := range []*int64{&s.State.Stamp, &s.State.Used, &s.Unit} {
		var err error = strconv.ErrSyntax
		if len(parts) == 3 {
			*to, err = strconv.ParseInt(parts[i], 10, 64)
		}
		if err != nil && packed {
			n := math.Float64frombits(binary.LittleEndian.Uint64([]byte(text[8*i:])))
			if *to = int64(n); float64(*to) == n {
				err = nil
			}
		}
		if err != nil {
			return s, false
		}
	}
	return s, true
}

// Log is what a segment of a sorted set holds, or false.
func Log(segment string) (Stored, bool) {
	return Stored{Part: segment, Algorithm: algorithms["log"], Unit: 1}, strings.HasPrefix(segment, "log")
}
