package integration_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"runtime"
	"runtime/metrics"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/processes"
	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A crowd is the clients of one process. Each asks steadily, whatever the answer: in turn for a key that all processes
// share and use up within a moment, and for a key that nobody else uses, which shows what this one call was charged.
type crowd struct {
	Addr, Username, Password string
	PoolSize                 int // 0 is go-redis's default
	Process, Clients         int
	Name, Algorithm, Policy  string
	Soak                     bool // for long: keys expire soon, and only the last decisions are kept
}

const (
	crowdLimit   = 20 // of each key, and nothing comes back meanwhile
	crowdShare   = 4  // processes, for the policy that limits locally
	crowdTimeout = 50 * time.Millisecond
	crowdPace    = 20 * time.Millisecond
	crowdSlot    = 100 * time.Millisecond // for so long all use the same shared key
	soakPer      = time.Second            // until a key of a soak is as if never used
	soakKept     = 1 << 14                // decisions, dials and samples that a soak keeps
)

// An account is what a crowd did and heard. Instants are comparable between processes.
type account struct {
	Decisions      []outcome
	Dials, Scripts []time.Time // when go-redis dialled, and when it wrote a script
	Samples        []sample
	Late, Timers   []time.Duration // see lateness
	Calls          int
	Open           int64 // connections that were not closed at the end
	Sources        map[rl.Source]int
	Errors         map[string]int // what callers got
	Left           int            // goroutines at the end of a soak, more than at its begin
}

type outcome struct {
	Key     string
	At      time.Time // of the answer
	Took    time.Duration
	Source  rl.Source
	Allowed bool
	Error   string `json:",omitempty"` // what the caller got

	// What the policy heard, and the caller did not.
	Failure   string `json:",omitempty"`
	Uncertain bool   `json:",omitempty"`
}

func (d outcome) own() bool     { return strings.HasPrefix(d.Key, "own") }
func (d outcome) byRedis() bool { return d.Error == "" && d.Source == rl.SourceRedis }

// A sample is the size of the process at an instant.
type sample struct {
	At         time.Time
	Goroutines int
	Heap       uint64 // bytes of objects
}

var crowds = processes.Register("crowd", func(ctx context.Context, in crowd, begin func()) (account, error) {
	g, err := in.prepare()
	if err != nil {
		return account{}, err
	}
	begin()
	before := runtime.NumGoroutine()
	g.start(ctx)
	select {
	case <-processes.Stopped():
	case <-ctx.Done():
	}
	// The others may have been luckier: go on until Redis has decided here too.
	stop := time.Now()
	again := time.NewTicker(crowdPace)
	defer again.Stop()
	for g.since(stop, outcome.byRedis) < crowdClients && time.Since(stop) < 5*time.Second {
		<-again.C
	}
	a := g.end()
	for in.Soak && runtime.NumGoroutine() > before && time.Since(stop) < 15*time.Second {
		<-again.C // go-redis may still be dialling
	}
	a.Left = max(runtime.NumGoroutine()-before, 0)
	return a, nil
})

// A gathering is a crowd at work.
type gathering struct {
	crowd
	rdb     *redis.Client
	asked   rl.Allower
	late    lateness
	cancel  context.CancelFunc
	running sync.WaitGroup
	open    atomic.Int64

	mu      sync.Mutex
	account account
}

func (c crowd) prepare() (*gathering, error) {
	g := &gathering{crowd: c, account: account{Sources: map[rl.Source]int{}, Errors: map[string]int{}}}
	g.rdb = redis.NewClient(&redis.Options{
		Addr: c.Addr, Username: c.Username, Password: c.Password, PoolSize: c.PoolSize, Dialer: g.dial,
		ContextTimeoutEnabled: c.Process%2 == 1, // lone calls do without a goroutine then
	})
	limit, err := c.limit()
	if err != nil {
		return nil, err
	}
	l, err := rl.New(g.rdb, c.Name, limit)
	if err != nil {
		return nil, err
	}
	secondary, err := c.secondary(limit)
	if err != nil {
		return nil, err
	}
	g.asked = &rl.Fallback{Primary: noting{l}, Secondary: secondary, Timeout: crowdTimeout, OnError: func(error) {}}
	return g, nil
}

func (c crowd) limit() (rl.Limit, error) {
	i := slices.IndexFunc(limitertest.Algorithms(), func(a limitertest.Algorithm) bool { return a.Name == c.Algorithm })
	if c.Soak {
		return limitertest.Algorithms()[i].Make(crowdLimit, soakPer), nil
	}
	return lastingLimit(limitertest.Algorithms()[i], crowdLimit)
}

func (c crowd) secondary(limit rl.Limit) (rl.Allower, error) {
	switch c.Policy {
	case "open":
		return rl.Open, nil
	case "closed":
		return rl.Closed, nil
	case "local":
		return rl.NewMemory("local", limit.Share(crowdShare))
	}
	return nil, fmt.Errorf("no policy %q", c.Policy)
}

// A noting limiter writes its failures into the outcome that the context carries.
type noting struct{ *rl.Limiter }

type noteKey struct{}

func (n noting) AllowN(ctx context.Context, key string, units int) (rl.Result, error) {
	r, err := n.Limiter.AllowN(ctx, key, units)
	if d, ok := ctx.Value(noteKey{}).(*outcome); ok && err != nil {
		d.Failure, d.Uncertain = err.Error(), errors.Is(err, rl.ErrUncertain)
	}
	return r, err
}

func (g *gathering) start(ctx context.Context) {
	ctx, g.cancel = context.WithCancel(ctx)
	for client := range g.Clients {
		g.running.Go(func() { g.ask(ctx, client) })
	}
	g.running.Go(func() { g.measure(ctx) })
}

// ask does so until the context ends, which does not end a call.
func (g *gathering) ask(ctx context.Context, client int) {
	pace := time.NewTicker(crowdPace * time.Duration(g.Clients) / crowdClients) // more clients do not ask more
	defer pace.Stop()
	for i := 0; ctx.Err() == nil; i++ {
		key := fmt.Sprintf("shared-%d", time.Now().UnixNano()/int64(crowdSlot))
		if i%2 == 0 {
			key = fmt.Sprintf("own-%d-%d-%d", g.Process, client, i)
		}
		d := outcome{Key: key}
		g.late.call(crowdTimeout, func() { g.decide(&d) })
		g.keep(d)
		select {
		case <-pace.C:
		case <-ctx.Done():
		}
	}
}

func (g *gathering) keep(d outcome) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.account.Decisions = kept(g, g.account.Decisions, d)
	g.account.Sources[d.Source]++
	if d.Error != "" {
		g.account.Errors[d.Error]++
	}
	if leaks.MatchString(d.Failure) {
		g.account.Errors[d.Failure]++
	}
}

// kept appends. In a soak it forgets the older half now and then.
func kept[E any](g *gathering, all []E, e E) []E {
	if g.Soak && len(all) >= soakKept {
		all = append(all[:0], all[soakKept/2:]...)
	}
	return append(all, e)
}

func (g *gathering) decide(d *outcome) {
	start := time.Now()
	r, err := g.asked.AllowN(context.WithValue(context.Background(), noteKey{}, d), d.Key, 1)
	d.At = time.Now()
	d.Took, d.Source, d.Allowed = d.At.Sub(start), r.Source, r.Allowed
	if err != nil {
		d.Error = err.Error()
	}
}

func (g *gathering) measure(ctx context.Context) {
	again := time.NewTicker(crowdPace)
	defer again.Stop()
	heap := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	for ctx.Err() == nil {
		metrics.Read(heap)
		others := runtime.NumGoroutine() - int(g.late.beside.Load()) // not the test's own, which a busy machine gathers
		s := sample{At: time.Now(), Goroutines: others, Heap: heap[0].Value.Uint64()}
		g.mu.Lock()
		g.account.Samples = kept(g, g.account.Samples, s)
		g.mu.Unlock()
		<-again.C
	}
}

// since counts the decisions of a kind from an instant on.
func (g *gathering) since(from time.Time, kind func(outcome) bool) (n int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, d := range slices.Backward(g.account.Decisions) {
		if d.At.Before(from.Add(-time.Second)) { // they are in the order of their answers, more or less
			break
		}
		if !d.At.Before(from) && kind(d) {
			n++
		}
	}
	return n
}

// first is how long after an instant Redis decided for the first time.
func (a account) first(from time.Time) time.Duration {
	took := time.Hour
	for _, d := range a.Decisions {
		if since := d.At.Sub(from); since >= 0 && d.byRedis() {
			took = min(took, since)
		}
	}
	return took
}

func (g *gathering) end() account {
	g.cancel()
	g.running.Wait()
	g.rdb.Close()
	g.mu.Lock()
	defer g.mu.Unlock()
	g.account.Late, g.account.Timers, g.account.Calls = g.late.calls, g.late.timers, g.late.all
	g.account.Open = g.open.Load()
	return g.account
}

func (g *gathering) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	g.note(&g.account.Dials)
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, addr)
	if err != nil {
		return nil, err
	}
	g.open.Add(1)
	return &watched{TCPConn: conn.(*net.TCPConn), of: g}, nil
}

func (g *gathering) note(what *[]time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	*what = kept(g, *what, time.Now())
}

// A watched connection tells of the scripts that are written. It embeds what it is, so that go-redis can look at the
// socket as it does with its own.
type watched struct {
	*net.TCPConn
	of   *gathering
	once sync.Once
}

func (w *watched) Write(b []byte) (int, error) {
	if bytes.Contains(b, []byte("evalsha")) {
		w.of.note(&w.of.account.Scripts)
	}
	return w.TCPConn.Write(b)
}

func (w *watched) Close() error {
	w.once.Do(func() { w.of.open.Add(-1) })
	return w.TCPConn.Close()
}
