package scripts_test

import (
	"encoding/binary"
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

// Servers pack the numbers; the embedded one, which has no library for it, writes digits.
func TestPackedStateIsRead(t *testing.T) {
	pack := func(widths string, numbers ...int64) string {
		var text []byte
		for i, n := range numbers {
			text = append(text, binary.LittleEndian.AppendUint64(nil, uint64(n))[:widths[i]-'0']...)
		}
		return string(text)
	}
	const stamp, till = 1796082497100229, 1796082499
	gcra := model.State{Stamp: stamp, Used: 42}
	for _, text := range []string{pack("7554", stamp, 42, 600_000, till), pack("7775", stamp, 42, 600_000, till), "1796082497100229:42:600000:1796082499"} {
		if s, ok := scripts.ReadString(text); !ok || s.State != gcra || s.Unit != 600_000 {
			t.Errorf("%q is read as %+v", text, s)
		}
	}
	for _, text := range []string{pack("77", 1, 2), pack("7554", 1, 2, 3, 4) + "x", "1:2:3", "1:2:3:x", "no limiter wrote all this"[:24]} {
		if s, ok := scripts.ReadString(text); ok {
			t.Errorf("%q is read as %+v", text, s)
		}
	}
	found := scripts.ReadHash(map[string]string{
		"10": pack("775", stamp, 1<<53, till), "21": pack("7775", stamp, 5, 6, till), "30": pack("7775", stamp, 0, stamp+9, till), "67": pack("7554", stamp, 8, 9, till),
	})
	for part, want := range map[string]model.State{
		"10": {Stamp: stamp, Used: 1 << 53}, "21": {Stamp: stamp, Used: 5, Prev: 6}, "30": {Stamp: stamp, Prev: stamp + 9}, "67": {Stamp: stamp, Used: 8},
	} {
		if got, ok := found[part]; !ok || got.State != want {
			t.Errorf("%s is read as %+v, want %+v", part, got.State, want)
		}
	}
}

func TestStrangersAreNotRead(t *testing.T) {
	if found := scripts.ReadHash(map[string]string{"name": "x", "70": "1:2:3:4", "40": "now", "": "1", "48": "1:2:3:4", "41": "1:2:3:4:5"}); len(found) != 0 {
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
