package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/eventually"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/processes"
	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

const (
	siegeProcesses = 2 // besides the test itself
	siegeCallers   = 4 // goroutines of each process
	siegeKeys      = 12
	siegeLimit     = 200_000 // never reached: what counts is what was charged
)

// A siege is a steady load from several processes on one limiter of all algorithms, behind a Fallback that lets all
// through, while something happens to the servers. Every process keeps a book of what it was told.
type siege struct {
	place   place
	name    string
	limits  []rl.Limit
	book    *book // of the test's own process
	others  *processes.Group[[]entry]
	stop    string // a file: there when the siege has to end
	cancel  context.CancelFunc
	running sync.WaitGroup
	late    lateness
}

// An entry of a book: one call.
type entry struct {
	Process   int
	Key       int
	At        time.Time // when it was answered
	Took      time.Duration
	Source    rl.Source
	Allowed   bool
	Uncertain bool   // Redis may have charged it
	Failure   string // why Redis did not decide
}

// A book is what one process was told.
type book struct {
	process int
	limiter *rl.Fallback

	mu      sync.Mutex
	entries []entry
}

type failureOf struct{} // the key of an *error in a context

func newBook(process int, rdb rl.Client, name string, limits []rl.Limit) (*book, error) {
	l, err := rl.New(rdb, name, limits...)
	if err != nil {
		return nil, err
	}
	told := rl.AllowerFunc(func(ctx context.Context, key string, n int) (rl.Result, error) {
		r, err := l.AllowN(ctx, key, n)
		*ctx.Value(failureOf{}).(*error) = err
		return r, err
	})
	f := &rl.Fallback{Primary: told, Secondary: rl.Open, Timeout: outageTimeout, OnError: func(error) {}}
	return &book{process: process, limiter: f}, nil
}

func keyName(i int) string { return fmt.Sprint("key", i) }

// ask makes one call and enters what came of it.
func (b *book) ask(key int) {
	var failure error
	start := time.Now()
	r, err := b.limiter.AllowN(context.WithValue(context.Background(), failureOf{}, &failure), keyName(key), 1)
	e := entry{
		Process: b.process, Key: key, At: time.Now(), Took: time.Since(start), Source: r.Source, Allowed: r.Allowed,
		Uncertain: errors.Is(failure, rl.ErrUncertain),
	}
	if err = errors.Join(err, failure); err != nil {
		e.Failure = err.Error()
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.entries = append(b.entries, e)
}

// since returns how many calls Redis has decided after an instant, on these keys.
func (b *book) since(at time.Time, keys []int) (n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := len(b.entries) - 1; i >= 0 && b.entries[i].At.After(at); i-- {
		if e := b.entries[i]; e.Source == rl.SourceRedis && slices.Contains(keys, e.Key) {
			n++
		}
	}
	return n
}

// run asks from several goroutines until the context ends. around is called around each call.
func (b *book) run(ctx context.Context, around func(call func())) {
	var running sync.WaitGroup
	for caller := range siegeCallers {
		running.Go(func() {
			pace := time.NewTicker(15 * time.Millisecond)
			defer pace.Stop()
			for key := caller; ctx.Err() == nil; key++ {
				around(func() { b.ask(key % siegeKeys) })
				<-pace.C
			}
		})
	}
	running.Wait()
}

// A besieger is what another process is told.
type besieger struct {
	Process    int
	Place      place
	Name, Stop string
}

var besiege = processes.Register("besiege", func(ctx context.Context, in besieger, begin func()) ([]entry, error) {
	redis.SetLogger(silent{})
	rdb := in.Place.open()
	defer rdb.Close()
	limits, err := siegeLimits()
	if err != nil {
		return nil, err
	}
	b, err := newBook(in.Process, rdb, in.Name, limits)
	if err != nil {
		return nil, err
	}
	begin()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		look := time.NewTicker(20 * time.Millisecond)
		defer look.Stop()
		for range look.C {
			if _, err := os.Stat(in.Stop); err == nil || ctx.Err() != nil {
				cancel()
				return
			}
		}
	}()
	b.run(ctx, func(call func()) { call() })
	return b.entries, nil
})

// siegeLimits are one of each algorithm, so that an id has several keys.
func siegeLimits() (limits []rl.Limit, err error) {
	for _, a := range limitertest.Algorithms() {
		limit, err := lastingLimit(a, siegeLimit)
		if err != nil {
			return nil, err
		}
		limits = append(limits, limit)
	}
	return limits, nil
}

// laySiege begins the load and returns when Redis decides for all keys.
func laySiege(t *testing.T, p place) *siege {
	t.Helper()
	limits, err := siegeLimits()
	if err != nil {
		t.Fatal(err)
	}
	s := &siege{place: p, name: newName(), limits: limits, stop: filepath.Join(t.TempDir(), "stop")}
	if s.book, err = newBook(0, p.dial(t), s.name, limits); err != nil {
		t.Fatal(err)
	}
	t.Setenv("GORACE", "atexit_sleep_ms=0 "+os.Getenv("GORACE")) // a process would sleep for a second at its end
	var orders []besieger
	for i := range siegeProcesses {
		orders = append(orders, besieger{Process: i + 1, Place: p, Name: s.name, Stop: s.stop})
	}
	s.others = besiege.Start(t, 2*time.Minute, orders...)
	ctx, cancel := context.WithCancel(context.Background())
	s.cancel = cancel
	s.running.Go(func() {
		s.book.run(ctx, func(call func()) { s.late.call(outageTimeout, call) })
	})
	t.Cleanup(func() { s.cancel(); s.running.Wait() })
	s.awaitRedis(t, time.Now())
	return s
}

// awaitRedis waits until Redis has decided, after an instant, several times for each key.
func (s *siege) awaitRedis(t *testing.T, after time.Time) {
	t.Helper()
	eventually.True(t, 20*time.Second, "Redis decides for every key", func() bool {
		for key := range siegeKeys {
			if s.book.since(after, []int{key}) < 5 {
				return false
			}
		}
		return true
	})
}

// lift ends the load, checks what holds whatever has happened, and returns the books of all processes.
func (s *siege) lift(t *testing.T) outcome {
	t.Helper()
	if err := os.WriteFile(s.stop, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	s.cancel()
	s.running.Wait()
	all := s.book.entries
	books, errs := s.others.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	for _, b := range books {
		all = append(all, b...)
	}
	o := outcome{entries: all, charged: s.charged(t)}
	o.check(t)
	s.late.check(t)
	s.wantExpiry(t)
	return o
}

// charged looks at what each key was charged in the end.
func (s *siege) charged(t *testing.T) []int {
	t.Helper()
	l := named(t, s.place.dial(t), s.name, s.limits...)
	charged := make([]int, siegeKeys)
	for key := range charged {
		charged[key] = siegeLimit - remaining(t, l, keyName(key))
	}
	return charged
}

// wantExpiry looks at all keys on all primaries.
func (s *siege) wantExpiry(t *testing.T) {
	t.Helper()
	found := 0
	switch c := s.place.dial(t).(type) {
	case *redis.ClusterClient:
		var mu sync.Mutex
		if err := c.ForEachMaster(t.Context(), func(_ context.Context, node *redis.Client) error {
			mu.Lock()
			defer mu.Unlock()
			found += wantExpiry(t, node, s.name)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	case *redis.Client:
		found = wantExpiry(t, c, s.name)
	}
	if found < siegeKeys {
		t.Errorf("%d keys on the servers, for %d that were used", found, siegeKeys)
	}
}

// An outcome is what all processes were told, and what the servers have.
type outcome struct {
	entries []entry
	charged []int // by key
}

// What the servers say among themselves, and no caller wants to hear.
var serverTalk = []string{"NOSCRIPT", "MOVED", "ASK ", "TRYAGAIN", "READONLY", "LOADING", "CLUSTERDOWN", "MASTERDOWN"}

// check holds for every siege: at most one unit a call is charged, and errors speak to the caller.
func (o outcome) check(t *testing.T) {
	t.Helper()
	heard := map[string]bool{}
	var slowest time.Duration
	sources := map[rl.Source]int{}
	for _, e := range o.entries {
		sources[e.Source]++
		slowest = max(slowest, e.Took)
		for _, talk := range serverTalk {
			if strings.Contains(e.Failure, talk) && !heard[talk] {
				heard[talk] = true
				t.Errorf("a caller heard of %s: %s", talk, e.Failure)
			}
		}
		if !e.Allowed {
			t.Errorf("refused by %v, %s: the limit is far away", e.Source, e.Failure)
		}
	}
	for key, charged := range o.charged {
		if admitted, uncertain := o.told(key); charged > admitted+uncertain {
			t.Errorf("key %d: charged %d, for %d calls that were admitted and %d uncertain", key, charged, admitted, uncertain)
		}
	}
	t.Logf("%d calls, by source %v; slowest %v of %v; reasons %v", len(o.entries), sources,
		slowest.Round(time.Millisecond), outageTimeout, o.reasons())
}

// reasons counts why Redis did not decide, by the ends of the texts.
func (o outcome) reasons() map[string]int {
	reasons := map[string]int{}
	for _, e := range o.entries {
		if e.Failure != "" {
			reasons[e.Failure[strings.LastIndex(e.Failure, ": ")+2:]]++
		}
	}
	return reasons
}

// told counts what callers know of a key.
func (o outcome) told(key int) (admitted, uncertain int) {
	for _, e := range o.entries {
		if e.Key != key {
			continue
		}
		if e.Uncertain {
			uncertain++
		} else if e.Source == rl.SourceRedis && e.Allowed {
			admitted++
		}
	}
	return admitted, uncertain
}

// lost returns how many charges that were answered are gone: at least and at most, since uncertain ones may have been
// made.
func (o outcome) lost() (least, most int) {
	for key, charged := range o.charged {
		admitted, uncertain := o.told(key)
		least += max(0, admitted-charged)
		most += max(0, admitted+uncertain-charged)
	}
	return least, most
}

// wantNothingLost fails the test if a charge that was answered is gone.
func (o outcome) wantNothingLost(t *testing.T) {
	t.Helper()
	if least, _ := o.lost(); least > 0 {
		t.Errorf("%d charges that were answered are lost", least)
	}
}

// admittedBetween counts what Redis admitted from one instant to another, on some keys.
func (o outcome) admittedBetween(from, to time.Time, keys []int) (n int) {
	for _, e := range o.entries {
		if e.Source == rl.SourceRedis && e.Allowed && slices.Contains(keys, e.Key) && e.At.After(from) && e.At.Before(to) {
			n++
		}
	}
	return n
}

// resumed returns how long after an instant Redis had decided again in every process for each of the keys. Where it had
// not when the siege was lifted, that is how long it took at least.
func (o outcome) resumed(since time.Time, keys []int) (longest time.Duration) {
	for process := range 1 + siegeProcesses {
		for _, key := range keys {
			longest = max(longest, o.firstDecision(process, key, since).Sub(since))
		}
	}
	return longest
}

// firstDecision finds the first one by Redis in a process's book after an instant, or the end of the book.
func (o outcome) firstDecision(process, key int, since time.Time) time.Time {
	var first, last time.Time
	for _, e := range o.entries {
		if e.Process != process {
			continue
		}
		if e.At.After(last) {
			last = e.At
		}
		if e.Key == key && e.Source == rl.SourceRedis && e.At.After(since) && (first.IsZero() || e.At.Before(first)) {
			first = e.At
		}
	}
	if first.IsZero() {
		return last
	}
	return first
}
