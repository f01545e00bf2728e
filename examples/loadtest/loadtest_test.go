package main

import (
	"context"
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

func TestMain(m *testing.M) {
	redis.SetLogger(quiet{})
	os.Exit(m.Run())
}

// A short run of everything, as a user starts it.
func TestWhole(t *testing.T) {
	path := filepath.Join(t.TempDir(), "out.svg")
	var out, errs strings.Builder
	code := run(t.Context(), []string{"-for", "1s", "-clients", "200", "-svg", path}, &out, &errs)
	if code != 0 || errs.String() != "" || strings.Count(out.String(), " holds") != 6 || strings.Contains(out.String(), "PROBLEM") {
		t.Fatalf("exit code %d, %s\n%s", code, errs.String(), out.String())
	}
	if !strings.Contains(out.String(), "1.0s  admitted") {
		t.Errorf("no progress is printed:\n%s", out.String())
	}
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	titles := 0
	for decoder := xml.NewDecoder(file); ; {
		token, err := decoder.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if text, ok := token.(xml.CharData); ok && strings.Contains(string(text), "Redis away, ") {
			titles++
		}
	}
	if titles != 3 {
		t.Errorf("the picture has %d titles of outages", titles)
	}
}

// On a server that others use nothing stays behind of the many clients, and
// the password stays where it is.
func TestRealServer(t *testing.T) {
	server := miniredis.RunT(t)
	server.RequireAuth("hidden")
	s, err := parse([]string{"-for", "1s", "-clients", "300", "-redis", "redis://:hidden@" + server.Addr()}, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	o, err := s.manyClients(t.Context(), io.Discard)
	if err != nil || len(o.verdict.problems) != 0 {
		t.Fatal(err, o.verdict.problems)
	}
	if len(o.admitted) != 600 || o.refused != 300 || len(server.Keys()) != 0 {
		t.Errorf("admitted %d, refused %d, %d keys are left", len(o.admitted), o.refused, len(server.Keys()))
	}
}

func TestWrongFlags(t *testing.T) {
	for args, names := range map[string]string{
		"-for 10ms": "-for", "-for x": "-for", "-clients -1": "-clients", "-rate 1": "-rate", "-burst 50": "-burst", "-redis localhost": "-redis",
		"-redis redis://:hidden@h:x": "-redis", "more": "more", "-unknown": "-unknown",
	} {
		var out, errs strings.Builder
		if code := run(t.Context(), strings.Fields(args), &out, &errs); code != 2 || !strings.Contains(errs.String(), names) || strings.Contains(errs.String(), "hidden") {
			t.Errorf("%s: exit code %d, %s", args, code, errs.String())
		}
	}
	var out, errs strings.Builder
	if code := run(t.Context(), []string{"-h"}, &out, &errs); code != 0 || !strings.Contains(errs.String(), "-quick") {
		t.Errorf("-h: exit code %d, %s", code, errs.String())
	}
}

// An embedded server would be at it for minutes.
func TestManyClients(t *testing.T) {
	for args, want := range map[string]int{"": 2000, "-redis redis://h": 10_000, "-clients 7": 7, "-redis redis://h -clients 7": 7, "-quick": 1000} {
		if s, err := parse(strings.Fields(args), io.Discard); err != nil || s.clients != want {
			t.Errorf("%q: %+v, %v; want %d clients", args, s, err, want)
		}
	}
}

func TestInterrupted(t *testing.T) {
	ctx, interrupt := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer interrupt()
	var out, errs strings.Builder
	start := time.Now()
	if code := run(ctx, []string{"-for", "1h", "-svg", ""}, &out, &errs); code != 1 || time.Since(start) > 10*time.Second {
		t.Errorf("exit code %d after %v, %s", code, time.Since(start), errs.String())
	}
}

// steady makes charges of one unit, one every step, of so many asked for.
func steady(asked int64, n int, from, step int64) []charge {
	var charges []charge
	for i := range n {
		charges = append(charges, charge{from + int64(i)*step, asked, 1})
	}
	return charges
}

// with is a copy of charges with others behind.
func with(charges []charge, more ...charge) []charge {
	return append(slices.Clone(charges), more...)
}

const second = 1_000_000 // in microseconds

// The judges have to be able to say no.
func TestJudgesFindWhatIsWrong(t *testing.T) {
	bucket := redislimiter.TokenBucket(100, time.Second, 200)
	log := redislimiter.SlidingWindowLog(100, time.Second)
	burst := charge{0, 200, 200}
	right := with([]charge{burst}, steady(5, 1000, second/100, second/100)...) // 10 s
	for name, test := range map[string]struct {
		verdict verdict
		problem string // empty: right
	}{
		"bucket":                   {judgeBucket(bucket, right, 1200), ""},
		"bucket, out of order":     {judgeBucket(bucket, with(right[1:], burst), 1200), ""},
		"bucket, one over":         {judgeBucket(bucket, with(right, charge{10 * second, 1, 1}), 1201), "admitted 1201, more than 1200.0"},
		"bucket, 2 % over":         {judgeBucket(bucket, with(right, charge{10 * second, 24, 24}), 1224), "1224, which is not within 1 %"},
		"bucket, refuses too much": {judgeBucket(bucket, with(right[:1001-20], charge{10 * second, 5, 0}), 1180), "5 were asked for, 20 were there, and 0 were granted"},
		"bucket, 2 % under":        {judgeBucket(bucket, with(right[:1001-25], charge{10 * second, 5, 0}), 1175), "1175, which is not within 1 %"},
		"bucket, a slow client":    {judgeBucket(bucket, []charge{burst, {5 * second, 300, 200}}, 400), ""},
		"bucket, answered more":    {judgeBucket(bucket, right, 1201), "1201 were answered"},
		"bucket, nothing":          {judgeBucket(bucket, nil, 0), "nothing was decided"},
		"log":                      {judgeLog(log, with(steady(1, 100, 0, 1), steady(1, 100, second, 1)...), 200), ""},
		"log, one over":            {judgeLog(log, with(steady(1, 100, 1, 1), charge{second, 1, 1}), 101), "had 1 over"},
		"log, over within a trip":  {judgeLog(log, []charge{{0, 103, 103}}, 103), "had 3 over"},
		"log, a fixed window":      {judgeLog(log, []charge{{0, 1, 1}, {second - 1, 99, 99}, {second, 100, 100}}, 200), "had 99 over"},
		"log, refuses too much":    {judgeLog(log, []charge{{0, 10, 10}, {10 * second, 5, 0}}, 10), "5 were asked for, there was room for 100, and 0 were granted"},
		"log, answered less":       {judgeLog(log, []charge{{0, 10, 10}}, 9), "9 were answered"},
		"log, nothing":             {judgeLog(log, nil, 0), "nothing was decided"},
	} {
		check(t, name, test.verdict, test.problem)
	}
	if v := judgeBucket(bucket, []charge{burst, {5 * second, 300, 200}}, 400); v.expected != "400.0" {
		t.Errorf("expected of a slow client: %s", v.expected)
	}
}

func check(t *testing.T, name string, v verdict, problem string) {
	t.Helper()
	text := strings.Join(v.problems, "; ")
	if problem == "" && text != "" || !strings.Contains(text, problem) {
		t.Errorf("%s: problems %q, want %q", name, text, problem)
	}
}

func TestJudgeOfManyClients(t *testing.T) {
	limit := redislimiter.TokenBucket(1, 10*time.Minute, 2)
	of := func(key string, source redislimiter.Source, allowed ...bool) (all []decision) {
		for _, a := range allowed {
			all = append(all, decision{key: key, source: source, allowed: a})
		}
		return all
	}
	const redis = redislimiter.SourceRedis
	good := of("a", redis, true, true, false)
	check(t, "right", judgeClients(limit, append(good, of("b", redis, true)...), time.Second), "")
	check(t, "over", judgeClients(limit, append(good, of("b", redis, true, true, true)...), time.Second), "b was admitted 3 times of 3, not 2")
	check(t, "refilled", judgeClients(limit, of("b", redis, true, true, true), 11*time.Minute), "")
	check(t, "under", judgeClients(limit, append(good, of("b", redis, true, false)...), time.Second), "b was admitted 1 times")
	check(t, "elsewhere", judgeClients(limit, of("b", redislimiter.SourceOpen, true), time.Second), "not decided by Redis")
	check(t, "failed", judgeClients(limit, []decision{{key: "b", failed: true}}, time.Second), "not decided by Redis")
	check(t, "nothing", judgeClients(limit, nil, time.Second), "nothing was decided")
}

func TestJudgeOfAnOutage(t *testing.T) {
	judge := func(limit redislimiter.Limit, secondary redislimiter.Source, all []decision, away outage) verdict {
		for i := range all {
			all[i].began = all[i].at
		}
		return judgeOutage(limit, secondary, all, []charge{{0, 1, 1}, {second, 30, 29}}, away)
	}
	limit := redislimiter.TokenBucket(10, time.Second, 20)
	start := time.Now()
	away := outage{start.Add(time.Second), start.Add(2 * time.Second)}
	history := func(secondary redislimiter.Source, allowed bool, n int, back time.Duration) []decision {
		all := []decision{{at: start, source: redislimiter.SourceRedis, allowed: true}}
		for range n {
			all = append(all, decision{at: away.cut, source: secondary, allowed: allowed})
		}
		return append(all, decision{at: away.restored.Add(back), source: redislimiter.SourceRedis, allowed: true})
	}
	const open, closed, memory = redislimiter.SourceOpen, redislimiter.SourceClosed, redislimiter.SourceMemory
	soon := 100 * time.Millisecond
	check(t, "open", judge(limit, open, history(open, true, 1000, soon), away), "")
	check(t, "open refuses", judge(limit, open, history(open, false, 3, soon), away), "fail open has refused 3")
	check(t, "closed", judge(limit, closed, history(closed, false, 1000, soon), away), "")
	check(t, "closed admits", judge(limit, closed, history(closed, true, 2, soon), away), "fail closed has admitted 2")
	check(t, "local", judge(limit, memory, history(memory, true, 20, soon), away), "")
	check(t, "local admits too much", judge(limit, memory, history(memory, true, 21, soon), away), "memory admitted 21, at most 20")
	check(t, "late", judge(limit, open, history(open, true, 1, 3*time.Second), away), "did not decide again")
	check(t, "never away", judge(limit, open, history(open, true, 0, soon), away), "open decided 0 times")
	failed := append(history(open, true, 1, soon), decision{failed: true})
	check(t, "no decision", judge(limit, open, failed, away), "not decided at all")
	much := judgeOutage(limit, open, history(open, true, 1, soon), []charge{{0, 1, 1}, {second, 30, 30}}, away)
	check(t, "Redis admits too much", much, "Redis admitted 31, at most 30")
}

// A verdict that does not hold is the exit code, and says why.
func TestTable(t *testing.T) {
	var out strings.Builder
	bad := &outcome{title: "bad"}
	bad.verdict.wrong("it is off by %d", 7)
	if table(&out, []*outcome{{title: "good"}, bad}) || !strings.Contains(out.String(), "PROBLEM: bad: it is off by 7") || !strings.Contains(out.String(), "DOES NOT HOLD") {
		t.Error(out.String())
	}
	if table(&out, nil) {
		t.Error("nothing holds")
	}
	if !table(&out, []*outcome{{title: "good"}}) {
		t.Error("good does not hold")
	}
}

func TestPerSecond(t *testing.T) {
	at := []time.Duration{0, 10 * time.Millisecond, 300 * time.Millisecond, 600 * time.Millisecond}
	got := perSecond(at, 250*time.Millisecond)
	if len(got) != 2 || got[0] != 8 || got[1] != 4 {
		t.Errorf("%v", got)
	}
	if got := perSecond(nil, time.Second); got != nil {
		t.Errorf("%v", got)
	}
}
