package integration_test

import (
	"bufio"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/eventually"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

const (
	outageLimit   = 200
	outageShare   = 4 // instances, of which the test is one
	outageTimeout = 50 * time.Millisecond
	outageRestart = 1 // how often the server loses what it knew
	resumption    = time.Second
)

// An outagePolicy is what decides while Redis does not, and what it may do.
type outagePolicy struct {
	name      string
	secondary func(t *testing.T, limit rl.Limit) rl.Allower
	source    rl.Source
	check     func(admitted, refused int) bool
}

var outagePolicies = []outagePolicy{
	{
		"open", func(*testing.T, rl.Limit) rl.Allower { return rl.Open }, rl.SourceOpen,
		func(admitted, refused int) bool { return admitted > 0 && refused == 0 },
	},
	{
		"closed", func(*testing.T, rl.Limit) rl.Allower { return rl.Closed }, rl.SourceClosed,
		func(admitted, refused int) bool { return admitted == 0 && refused > 0 },
	},
	{
		"local", localShare, rl.SourceMemory,
		func(admitted, refused int) bool { return admitted == outageLimit/outageShare && refused > 0 },
	},
}

func localShare(t *testing.T, limit rl.Limit) rl.Allower {
	t.Helper()
	m, err := rl.NewMemory("local", limit.Share(outageShare))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// Redis is killed and started again under load, with each policy and algorithm: nobody gets an error or waits longer
// than the timeout, the policy decides meanwhile, and Redis does again within a second of its return.
func TestRedisIsKilledAndRestartedUnderLoad(t *testing.T) {
	var late lateness
	onEach(t, func(t *testing.T, kind servers.Kind) {
		s := servers.Start(t, kind)
		algorithms := limitertest.Algorithms()
		for i, policy := range outagePolicies {
			a := algorithms[i%len(algorithms)]
			t.Run(policy.name+" "+a.Name, func(t *testing.T) { policy.run(t, s, lasting(t, a, outageLimit), &late) })
		}
	})
	late.check(t)
}

func (p outagePolicy) run(t *testing.T, s *servers.Server, limit rl.Limit, late *lateness) {
	primary, err := rl.New(dial(t, s.Addr), newName(), limit)
	if err != nil {
		t.Fatal(err)
	}
	var failed failures
	f := &rl.Fallback{Primary: primary, Secondary: p.secondary(t, limit), Timeout: outageTimeout, OnError: failed.add}
	load := begin(t, f, late)
	reached := func(source rl.Source, refusals int) func() bool {
		return func() bool { return load.count(source).refused > refusals }
	}
	eventually.True(t, 10*time.Second, "Redis has admitted the limit", reached(rl.SourceRedis, 0))
	s.Kill()
	eventually.True(t, 10*time.Second, "the policy decides", func() bool { return load.count(p.source).all() > 250 })

	before := load.count(rl.SourceRedis)
	back := answersAgain(t, s.Addr)
	s.Restart()
	eventually.True(t, 10*time.Second, "Redis decides again", func() bool { return load.count(rl.SourceRedis).all() > before.all() })
	returned := <-back
	resumed := load.count(rl.SourceRedis).first(before).Sub(returned)
	eventually.True(t, 10*time.Second, "Redis has admitted the limit again", reached(rl.SourceRedis, before.refused))
	load.end(t)

	t.Logf("decided by Redis %v; %v; resumed %v after its return, slowest call %v",
		load.count(rl.SourceRedis), load.count(p.source), resumed.Round(time.Millisecond), load.slowest)
	if most := resumption + failed.missed(t, returned); resumed > most {
		t.Errorf("Redis decides again %v after its return, want at most %v", resumed, most)
	}
	if n := load.count(rl.SourceRedis).admitted; n > outageLimit*(1+outageRestart) {
		t.Errorf("Redis admitted %d, the limit is %d and it lost its state %d times", n, outageLimit, outageRestart)
	}
	if c := load.count(p.source); !p.check(c.admitted, c.refused) {
		t.Errorf("the policy: %v", c)
	}
	wantExpiry(t, dial(t, s.Addr), primary.Name())
}

// Failures are what OnError has heard.
type failures struct {
	mu   sync.Mutex
	errs []error
	at   []time.Time
}

func (f *failures) add(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.errs, f.at = append(f.errs, err), append(f.at, time.Now())
}

// missed is how much later Redis may decide again because probes that it could have answered got no answer within the
// timeout: the machine was too busy, and the next probe comes only after the cooldown.
func (f *failures) missed(t *testing.T, since time.Time) (d time.Duration) {
	t.Helper()
	f.mu.Lock()
	defer f.mu.Unlock()
	for i, at := range f.at {
		if at.Before(since) {
			continue
		}
		t.Logf("%v after its return: %v", at.Sub(since), f.errs[i])
		var dial *net.OpError // go-redis did not even try
		if at.Sub(since) > outageTimeout && !errors.As(f.errs[i], &dial) {
			d += 500*time.Millisecond + outageTimeout
		}
	}
	return d
}

// answersAgain tells the first instant at which a server that is down answers. It does not use go-redis, which dials
// only once a second after some failures.
func answersAgain(t *testing.T, addr string) <-chan time.Time {
	t.Helper()
	back := make(chan time.Time, 1)
	go func() {
		again := time.NewTicker(time.Millisecond)
		defer again.Stop()
		for !answers(addr) && t.Context().Err() == nil {
			<-again.C
		}
		back <- time.Now()
	}()
	return back
}

func answers(addr string) bool {
	const patience = 100 * time.Millisecond
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return false
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(patience)) != nil {
		return false
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && answer == "+PONG\r\n"
}
