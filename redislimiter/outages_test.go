package redislimiter_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A record is a line of the log.
type record struct {
	Level     string
	Msg       string
	Limiter   string
	Source    string
	Decisions int
	For       time.Duration
	Error     string
}

// A journal is a logger whose lines can be read.
type journal struct {
	t    *testing.T
	mu   sync.Mutex
	text bytes.Buffer
}

func (j *journal) logger() *slog.Logger { return slog.New(slog.NewJSONHandler(j, nil)) }

func (j *journal) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.text.Write(p)
}

func (j *journal) records() (all []record) {
	j.t.Helper()
	j.mu.Lock()
	defer j.mu.Unlock()
	if strings.Contains(j.text.String(), "secret") {
		j.t.Fatalf("a key was logged: %s", &j.text)
	}
	for line := range strings.Lines(j.text.String()) {
		var r record
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			j.t.Fatal(err)
		}
		all = append(all, r)
	}
	return all
}

// decide asks every 100 ms for a while.
func decide(t *testing.T, l rl.Allower, d time.Duration) {
	t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		_, _ = l.AllowN(t.Context(), "secret", 1)
	}
}

// Failing open for an hour is not silent, and no flood either. An OnError does
// not change that.
func TestAnHourOfFailingOpenIsLogged(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j := &journal{t: t}
		p := &primary{Allower: newMemory(t, rl.TokenBucket(1, time.Hour, 5))}
		f := &rl.Fallback{Primary: p, Secondary: rl.Open, Logger: j.logger(), OnError: func(error) {}}
		decide(t, f, time.Minute)
		if all := j.records(); len(all) != 0 {
			t.Fatalf("logged while all is well: %+v", all)
		}
		p.down.Store(true)
		decide(t, f, time.Hour)
		all := j.records()
		if len(all) != 360 {
			t.Fatalf("%d lines in an hour", len(all))
		}
		const text = "redislimiter: decisions are made without the limiter"
		if want := (record{"WARN", text, "", "open", 1, 0, "no decision"}); all[0] != want {
			t.Errorf("at once: %+v", all[0])
		}
		if want := (record{"WARN", text, "", "open", 100, 59*time.Minute + 50*time.Second, "no decision"}); all[359] != want {
			t.Errorf("the last: %+v", all[359])
		}
		p.down.Store(false)
		decide(t, f, time.Minute)
		all = j.records()[360:]
		// The probe comes up to 250 ms later, when the next line was due as well.
		end := all[len(all)-1]
		if len(all) > 2 || end.Msg != "redislimiter: the limiter decides again" || end.Level != "INFO" || end.Limiter != "test" ||
			end.Decisions < 36_000 || end.Decisions > 36_003 || end.For.Round(time.Second) != time.Hour {
			t.Errorf("recovered: %+v", all)
		}
	})
}

func TestFallbackLogsToTheDefault(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	synctest.Test(t, func(t *testing.T) {
		j := &journal{t: t}
		slog.SetDefault(j.logger())
		p := &primary{}
		p.down.Store(true)
		allow(t, &rl.Fallback{Primary: p, Secondary: rl.Closed}, "secret", 1, false)
		if all := j.records(); len(all) != 1 || all[0].Source != "closed" {
			t.Fatalf("%+v", all)
		}
	})
}

// However fast it comes and goes, there are two lines every ten seconds at most.
func TestAFlappingRedisDoesNotFloodTheLog(t *testing.T) {
	for _, period := range []time.Duration{100 * time.Millisecond, time.Second, 7 * time.Second, 12 * time.Second} {
		synctest.Test(t, func(t *testing.T) {
			j := &journal{t: t}
			p := &primary{Allower: newMemory(t, rl.TokenBucket(1, time.Hour, 5))}
			l := rl.Observe(p, rl.LogOutages(j.logger()))
			for start := time.Now(); time.Since(start) < 10*time.Minute; {
				p.down.Store(true)
				decide(t, l, period)
				p.down.Store(false)
				decide(t, l, period)
			}
			if n := len(j.records()); n < 25 || n > 120 {
				t.Errorf("%d lines in ten minutes at a period of %v", n, period)
			}
		})
	}
}

// An outage without a Fallback.
func TestLogOutages(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		redisIs, inner := flakyLimiter(t)
		j := &journal{t: t}
		l := rl.Observe(inner, rl.LogOutages(j.logger()))
		decide(t, l, time.Second)
		redisIs.after = func(int64) error { return serverError("LOADING Redis is loading the dataset in memory") }
		decide(t, l, 15*time.Second)
		redisIs.after = func(int64) error { return serverError("OOM command not allowed when used memory > 'maxmemory'") }
		decide(t, l, 15*time.Second)
		redisIs.after = nil
		decide(t, l, 15*time.Second)
		all := j.records()
		levels := ""
		for _, r := range all {
			levels += r.Level + " "
			if r.Limiter != "test" || r.Level != "INFO" && (r.Source != "none" || !strings.HasSuffix(r.Msg, "gives no decisions") || !strings.HasPrefix(r.Error, "redislimiter: test: no decision")) {
				t.Errorf("%+v", r)
			}
		}
		if levels != "WARN WARN ERROR INFO " && levels != "WARN WARN ERROR ERROR INFO " {
			t.Fatalf("%+v", all)
		}
	})
}

// What is no outage, and what somebody else has logged.
func TestLogOutagesLeavesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		j, own := &journal{t: t}, &journal{t: t}
		p := &primary{Allower: newMemory(t, rl.TokenBucket(1, time.Hour, 5))}
		l := rl.Observe(&rl.Fallback{Primary: p, Secondary: rl.Open, Logger: own.logger()}, rl.LogOutages(j.logger()))
		gone, cancel := context.WithCancel(t.Context())
		cancel()
		for _, n := range []int{-1, 6, 5, 5} { // mistakes, allowed, refused
			_, _ = l.AllowN(t.Context(), "secret", n)
			_, _ = l.AllowN(gone, "secret", n)
		}
		p.down.Store(true)
		allow(t, l, "secret", 1, true)
		if all := j.records(); len(all) != 0 {
			t.Errorf("%+v", all)
		}
		if all := own.records(); len(all) != 1 {
			t.Errorf("the Fallback logged %+v", all)
		}
	})
}

// A limiter that was switched off by hand does not stay so unnoticed; an error of
// whoever picks the limiter is an outage.
func TestLogOutagesSeesWhatDoesNotCount(t *testing.T) {
	for want, l := range map[string]rl.Allower{
		"open":   rl.Open,
		"closed": rl.Closed,
		"none": rl.AllowerFunc(func(context.Context, string, int) (rl.Result, error) {
			return rl.Result{}, errors.New("no plan")
		}),
	} {
		j := &journal{t: t}
		_, _ = rl.Observe(l, rl.LogOutages(j.logger())).AllowN(t.Context(), "secret", 1)
		if all := j.records(); len(all) != 1 || all[0].Source != want {
			t.Errorf("%s: %+v", want, all)
		}
	}
}

func TestLogOutagesFromManyGoroutines(t *testing.T) {
	j := &journal{t: t}
	p := &primary{Allower: newMemory(t, rl.TokenBucket(1, time.Hour, 5))}
	l := rl.Observe(p, rl.LogOutages(j.logger()))
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for k := range 1000 {
				p.down.Store((i+k)%2 == 0)
				_, _ = l.AllowN(t.Context(), fmt.Sprint("secret", k), 1)
			}
		})
	}
	wg.Wait()
	if n := len(j.records()); n < 1 || n > 20 {
		t.Fatalf("%d lines", n)
	}
}
