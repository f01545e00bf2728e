package integration_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
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
	others  *processes.Group[[]noted]
	stop    string // a file: there when the siege has to end
	cancel  context.CancelFunc
	running sync.WaitGroup
	late    lateness
}

// A line of a book: one call.
type noted struct {
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
	entries []noted
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
	e := noted{
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

var besiege = processes.Register("besiege", func(ctx context.Context, in besieger, begin func()) ([]noted, error) {
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
func (s *siege) lift(t *testing.T) aftermath {
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
	o := aftermath{entries: all, charged: s.charged(t), busy: s.late.worst()}
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
