package scripts_test

import (
	"encoding/binary"
	"math"
	"slices"
	"testing"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/keys"
	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	"github.com/redislimiter/go-redislimiter/internal/model"
	"github.com/redislimiter/go-redislimiter/scripts"
)

// What the scripts store is read back as the model would have stored it, rule
// by rule, whatever else shares the hash.
func TestStoredIsReadBack(t *testing.T) {
	bucket, gcra := model.NewTokenBucket(3, 7*time.Second, 9), model.GCRA{TokenBucket: model.NewTokenBucket(11, time.Minute, 20)}
	for _, rules := range [][]model.Rule{
		{gcra},
		{model.SlidingWindowLog{Rate: 9, Per: time.Hour}, bucket, bucket, model.SlidingWindowLog{Rate: 9, Per: time.Hour}},
		{model.FixedWindow{Rate: 9, Per: time.Hour}, model.NewSlidingWindowCounter(9, time.Hour), gcra,
			model.LeakyBucket{TokenBucket: bucket}, model.BlockAfter{Refusals: 2, Within: time.Hour, Block: time.Hour}},
	} {
		_, client := limitertest.Redis(t)
		s, err := scripts.New(rules)
		if err != nil {
			t.Fatal(err)
		}
		states := make([]model.State, len(rules))
		for _, cost := range []int64{4, 3, 8} { // the last is refused, which a block counts
			args := []any{}
			for _, arg := range s.Args {
				args = append(args, arg)
			}
			reply, err := client.Eval(t.Context(), s.Text, keys.Of("t", s.Segments, "k"), append(args, cost, 1)...).Int64Slice()
			if err != nil {
				t.Fatal(err)
			}
			model.Take(rules, states, reply[len(reply)-1], model.Charge{Cost: cost, Count: 1})
		}
		stored := map[string]scripts.Stored{}
		for i, key := range keys.Of("t", scripts.AllSegments(), "k") {
			segment := scripts.AllSegments()[i]
			found := map[string]scripts.Stored{}
			switch kind := client.Type(t.Context(), key).Val(); kind {
			case "hash":
				found = scripts.ReadHash(client.HGetAll(t.Context(), key).Val())
			case "string":
				if s, ok := scripts.ReadString(client.Get(t.Context(), key).Val()); ok {
					found[s.Part] = s
				}
			case "zset":
				if s, ok := scripts.Log(segment); ok {
					found[s.Part] = s
				}
			}
			for part, s := range found {
				stored[part] = s
			}
		}
		if len(stored) != len(rules) {
			t.Errorf("%d rules are stored, %v is read", len(rules), stored)
		}
		for i, part := range s.Parts {
			got, ok := stored[part]
			want := states[i]
			want.Log = nil
			if !ok || got.State != want || got.Algorithm == "" {
				t.Errorf("%T: read %+v, want %+v", rules[i], got, want)
			}
			if b, ok := rules[i].(interface{ Unit() int64 }); ok && got.Unit != b.Unit() {
				t.Errorf("%T: unit %d, want %d", rules[i], got.Unit, b.Unit())
			}
		}
	}
}

// Servers pack the numbers of GCRA; the embedded one, which has no library for it, writes digits.
func TestPackedGCRAIsRead(t *testing.T) {
	pack := func(numbers ...float64) string {
		var text []byte
		for _, n := range numbers {
			text = binary.LittleEndian.AppendUint64(text, math.Float64bits(n))
		}
		return string(text)
	}
	s, ok := scripts.ReadString(pack(1796082497100229, 42, 600_000))
	if want := (model.State{Stamp: 1796082497100229, Used: 42}); !ok || s.State != want || s.Unit != 600_000 {
		t.Errorf("read %+v", s)
	}
	for _, text := range []string{pack(1, 2), pack(1, 2, 3, 4), pack(1, 2.5, 3), pack(math.NaN(), 2, 3), pack(1, math.Inf(1), 3), "no limiter wrote all this"[:24]} {
		if s, ok := scripts.ReadString(text); ok {
			t.Errorf("%q is read as %+v", text, s)
		}
	}
}

func TestStrangersAreNotRead(t *testing.T) {
	if found := scripts.ReadHash(map[string]string{"name": "x", "70": "1", "40": "now", "": "1", "49": "3"}); len(found) != 0 {
		t.Errorf("read %v", found)
	}
	for _, text := range []string{"", "1", "1700000000000000", "170000000000000012", "1700000000000000x:5", "x:5"} {
		if s, ok := scripts.ReadString(text); ok {
			t.Errorf("%q is read as %+v", text, s)
		}
	}
	if _, ok := scripts.Log("h"); ok || slices.Contains(scripts.AllSegments(), "") {
		t.Error("a hash is taken for a log")
	}
}
