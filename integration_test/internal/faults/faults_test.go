package faults_test

import (
	"context"
	"errors"
	"net"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/eventually"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/faults"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
)

func TestMain(m *testing.M) {
	os.Exit(servers.Main(m))
}

// setup returns a proxy, a client behind it, a client that goes straight to the server, and a key.
// The clients send everything once, so that the counts are exact.
func setup(t *testing.T) (p *faults.Proxy, rdb, direct *redis.Client, key string) {
	t.Helper()
	addr := servers.Shared(t, servers.Redis80)
	p = faults.Start(t, addr)
	dial := func(addr string) *redis.Client {
		c := redis.NewClient(&redis.Options{
			Addr:                  addr,
			MaxRetries:            -1,
			DialerRetries:         1,
			ContextTimeoutEnabled: true,
		})
		t.Cleanup(func() { c.Close() })
		return c
	}
	rdb = dial(p.Addr())
	// With a connection open already, the tests with short deadlines do not measure how long opening one takes.
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	return p, rdb, dial(addr), servers.Key(t)
}

// wantValue looks at the server without the proxy.
func wantValue(t *testing.T, direct *redis.Client, key string, want int) {
	t.Helper()
	got, err := direct.Get(t.Context(), key).Int()
	if err != nil && err != redis.Nil {
		t.Fatal(err)
	}
	if got != want {
		t.Errorf("the server ran it %d times, want %d", got, want)
	}
}

func wantCounts(t *testing.T, p *faults.Proxy, forwarded, answered, lost int) {
	t.Helper()
	if f, a, l := p.Forwarded("incr"), p.Answered("incr"), p.Lost("incr"); f != forwarded || a != answered || l != lost {
		t.Errorf("forwarded %d, answered %d, lost %d; want %d, %d, %d", f, a, l, forwarded, answered, lost)
	}
}

func TestWithoutFaultEverythingPasses(t *testing.T) {
	p, rdb, direct, key := setup(t)
	pipe := rdb.Pipeline()
	for range 1000 {
		pipe.Incr(t.Context(), key)
	}
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	wantValue(t, direct, key, 1000)
	wantCounts(t, p, 1000, 1000, 0)
}

func TestLoseReplyLetsTheServerRunTheRequest(t *testing.T) {
	p, rdb, direct, key := setup(t)
	p.Set(faults.Fault{Kind: faults.LoseReply, Command: "INCR", Times: 1})
	if err := rdb.Incr(t.Context(), key).Err(); err == nil {
		t.Fatal("the client has the reply")
	}
	wantValue(t, direct, key, 1)
	wantCounts(t, p, 1, 0, 1)

	// It was to happen once: the next call, on a new connection, is answered.
	if n, err := rdb.Incr(t.Context(), key).Result(); err != nil || n != 2 {
		t.Errorf("the second call: %d, %v", n, err)
	}
	wantCounts(t, p, 2, 1, 1)
}

func TestLoseRequestKeepsItFromTheServer(t *testing.T) {
	p, rdb, direct, key := setup(t)
	p.Set(faults.Fault{Kind: faults.LoseRequest, Command: "incr"})
	for range 3 {
		if err := rdb.Incr(t.Context(), key).Err(); err == nil {
			t.Fatal("the client has a reply")
		}
	}
	wantValue(t, direct, key, 0)
	wantCounts(t, p, 0, 0, 0)
}

func TestDelayReplyHoldsTheReplyOnly(t *testing.T) {
	p, rdb, direct, key := setup(t)
	const delay = 500 * time.Millisecond
	p.Set(faults.Fault{Kind: faults.DelayReply, Delay: delay, Command: "incr"})
	start := time.Now()
	call := make(chan error, 1)
	go func() { call <- rdb.Incr(t.Context(), key).Err() }()
	eventually.True(t, delay, "the server has run it before its reply is due", func() bool {
		n, _ := direct.Get(t.Context(), key).Int()
		return n == 1
	})
	wantCounts(t, p, 1, 0, 0)
	if err := <-call; err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < delay {
		t.Errorf("answered after %v, before %v", took, delay)
	}
	wantCounts(t, p, 1, 1, 0)
}

func TestDelaysOfOnePipelineDoNotAddUp(t *testing.T) {
	p, rdb, _, key := setup(t)
	const delay = 100 * time.Millisecond
	p.Set(faults.Fault{Kind: faults.DelayReply, Delay: delay, Command: "incr"})
	pipe := rdb.Pipeline()
	for range 50 {
		pipe.Incr(t.Context(), key)
	}
	start := time.Now()
	if _, err := pipe.Exec(t.Context()); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(start); took < delay || took > 20*delay {
		t.Errorf("took %v, want about %v", took, delay)
	}
}

func TestStallHoldsRequestsAndForwardsThemWhenItEnds(t *testing.T) {
	p, rdb, direct, key := setup(t)
	p.Set(faults.Fault{Kind: faults.Stall, Command: "incr"})
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := rdb.Incr(ctx, key).Err(); err == nil {
		t.Fatal("the client has a reply")
	}
	wantValue(t, direct, key, 0)
	if held := p.Held(); held != 1 {
		t.Errorf("held %d, want 1", held)
	}

	// The client gave up, but the network delivers what it was given.
	p.Heal()
	eventually.True(t, 5*time.Second, "the held request reaches the server", func() bool {
		n, _ := direct.Get(t.Context(), key).Int()
		return n == 1
	})
	if held := p.Held(); held != 0 {
		t.Errorf("held %d after the end", held)
	}
	if n, err := rdb.Incr(t.Context(), key).Result(); err != nil || n != 2 {
		t.Errorf("the next call: %d, %v", n, err)
	}
}

func TestStalledCallGoesOnWhenItEnds(t *testing.T) {
	p, rdb, _, key := setup(t)
	p.CutAll()
	before := p.Forwarded("")
	p.Set(faults.Fault{Kind: faults.Stall})
	call := make(chan error, 1)
	go func() { call <- rdb.Incr(t.Context(), key).Err() }()
	eventually.True(t, 5*time.Second, "the stall holds the HELLO of the new connection", func() bool {
		return p.Held() == 1
	})
	if n := p.Forwarded(""); n != before {
		t.Errorf("forwarded %d requests during a stall", n-before)
	}
	p.Heal()
	if err := <-call; err != nil {
		t.Error(err)
	}
}

func TestCutAllThrowsAwayWhatAStallHolds(t *testing.T) {
	p, rdb, direct, key := setup(t)
	p.Set(faults.Fault{Kind: faults.Stall, Command: "incr"})
	call := make(chan error, 1)
	go func() { call <- rdb.Incr(t.Context(), key).Err() }()
	eventually.True(t, 5*time.Second, "the stall holds the request", func() bool { return p.Held() == 1 })
	p.CutAll()
	if err := <-call; err == nil {
		t.Error("the client has a reply")
	}
	p.Heal()
	if n, err := rdb.Incr(t.Context(), key).Result(); err != nil || n != 1 {
		t.Errorf("the next call: %d, %v; want 1, as if the first had never been", n, err)
	}
	wantValue(t, direct, key, 1)
}

func TestLoseRequestAfterCutAllIsAServerThatHangsUp(t *testing.T) {
	p, rdb, direct, key := setup(t)
	if err := rdb.Incr(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	p.Set(faults.Fault{Kind: faults.LoseRequest})
	p.CutAll()
	for range 3 { // the first on the connection there was, the rest on new ones
		if err := rdb.Incr(t.Context(), key).Err(); err == nil {
			t.Error("answered by a server that hangs up")
		}
	}
	conn, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Errorf("the dial is to succeed: %v", err)
	} else {
		conn.Close()
	}
	wantValue(t, direct, key, 1)
	p.Heal()
	if n, err := rdb.Incr(t.Context(), key).Result(); err != nil || n != 2 {
		t.Errorf("after the end: %d, %v", n, err)
	}
}

func TestRefuseMakesDialsFailUntilItEnds(t *testing.T) {
	p, rdb, direct, key := setup(t)
	if err := rdb.Incr(t.Context(), key).Err(); err != nil {
		t.Fatal(err)
	}
	p.Set(faults.Fault{Kind: faults.Refuse})
	if err := rdb.Incr(t.Context(), key).Err(); err == nil {
		t.Error("answered under Refuse")
	}
	if conn, err := net.Dial("tcp", p.Addr()); err == nil {
		conn.Close()
		t.Error("the dial succeeds")
	}
	wantValue(t, direct, key, 1)
	p.Heal()
	if n, err := rdb.Incr(t.Context(), key).Result(); err != nil || n != 2 {
		t.Errorf("after the end, on the same address: %d, %v", n, err)
	}
}

func TestBlackHoleDropsDialsAndHoldsRequests(t *testing.T) {
	p, rdb, direct, key := setup(t)
	p.Set(faults.Fault{Kind: faults.BlackHole})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	if err := rdb.Incr(ctx, key).Err(); err == nil {
		t.Error("answered on the open connection")
	}
	conn, err := net.DialTimeout("tcp", p.Addr(), 200*time.Millisecond)
	var network net.Error
	if !errors.As(err, &network) || !network.Timeout() {
		t.Errorf("dialled %v, %v; want no answer at all", conn, err)
	}
	wantValue(t, direct, key, 0)
	p.Heal()
	eventually.True(t, 5*time.Second, "the held request reaches the server", func() bool {
		n, _ := direct.Get(t.Context(), key).Int()
		return n == 1
	})
	if n, err := rdb.Incr(t.Context(), key).Result(); err != nil || n != 2 {
		t.Errorf("the next call: %d, %v", n, err)
	}
}

func TestKilledServerShowsThroughTheProxy(t *testing.T) {
	s := servers.Start(t, servers.Valkey81)
	p := faults.Start(t, s.Addr)
	rdb := redis.NewClient(&redis.Options{Addr: p.Addr(), MaxRetries: -1})
	defer rdb.Close()
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	s.Kill()
	for range 2 {
		if err := rdb.Ping(t.Context()).Err(); err == nil {
			t.Error("answered without a server")
		}
	}
	s.Restart()
	if err := rdb.Ping(t.Context()).Err(); err != nil {
		t.Errorf("after the restart: %v", err)
	}
}
