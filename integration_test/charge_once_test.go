package integration_test

import (
	"errors"
	"testing"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/faults"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A connectionFault is a way in which a call and its reply do not find each other.
type connectionFault struct {
	name  string
	fault faults.Fault
	end   func(*faults.Proxy) // how it ends; nil heals

	uncertain bool // what the caller must be told
	sent      int  // how often the server gets the call in the end: what must have been charged
}

var connectionFaults = []connectionFault{
	{
		name:  "reply lost",
		fault: faults.Fault{Kind: faults.LoseReply, Command: "evalsha"}, uncertain: true, sent: 1,
	},
	{ // to the client this looks as the one above
		name:  "request lost",
		fault: faults.Fault{Kind: faults.LoseRequest, Command: "evalsha"}, uncertain: true, sent: 0,
	},
	{
		name:      "reply delayed beyond the timeout",
		fault:     faults.Fault{Kind: faults.DelayReply, Command: "evalsha", Delay: 4 * rl.DefaultTimeout},
		uncertain: true, sent: 1,
	},
	{
		name:  "stalled and delivered later",
		fault: faults.Fault{Kind: faults.Stall, Command: "evalsha"}, uncertain: true, sent: 1,
	},
	{
		name:  "stalled and thrown away",
		fault: faults.Fault{Kind: faults.Stall, Command: "evalsha"}, end: cutAndHeal, uncertain: true, sent: 0,
	},
	{
		name:  "refused",
		fault: faults.Fault{Kind: faults.Refuse}, uncertain: false, sent: 0,
	},
}

func cutAndHeal(p *faults.Proxy) {
	p.CutAll()
	p.Heal()
}

// The calls of one row: few at a time, so that their lateness is not that of the scheduler.
//
// Calls of one limiter may share a trip, and one that has left may still be charged if the others wait on. So only
// callers with limiters of their own can be told for certain.
const (
	faultyCalls   = 48
	faultyCallers = 8
)

// A call that does not get its reply is charged at most once and never sent again. The caller is back in time, and
// told of the uncertainty exactly when there is one.
func TestCallsAreChargedOnceWhateverTheConnectionDoes(t *testing.T) {
	var late lateness
	onEach(t, func(t *testing.T, kind servers.Kind) {
		for _, row := range connectionFaults {
			t.Run(row.name, func(t *testing.T) { row.run(t, servers.Shared(t, kind), faultyCallers, &late) })
			if kind == servers.Redis80 { // how calls share trips does not depend on the server
				t.Run(row.name+", shared limiter", func(t *testing.T) { row.run(t, servers.Shared(t, kind), 1, &late) })
			}
		}
	})
	late.check(t)
}

func (row connectionFault) run(t *testing.T, addr string, limiters int, late *lateness) {
	b := behindProxy(t, addr, faultyCalls, limiters)
	b.proxy.Set(row.fault)
	errs := b.callEach(t, late)
	if end := row.end; end != nil {
		end(b.proxy)
	} else {
		b.proxy.Heal()
	}
	sent := b.settled(t)
	if shared := limiters == 1; shared {
		row.checkShared(t, b, errs)
	} else if uncertain := row.check(t, b, errs); sent != row.sent*uncertain {
		t.Errorf("%d calls were sent %d times, want %d", uncertain, sent, row.sent*uncertain)
	}
	if sent > row.sent*len(errs) {
		t.Errorf("%d calls were sent %d times", len(errs), sent)
	}
	if n := b.proxy.Forwarded("eval"); n > 1 { // one, when the script was new to the server
		t.Errorf("%d EVALs", n)
	}
	wantExpiry(t, b.rdb, b.direct.Name())
}

// check compares what callers were told with what was charged in the end. It returns how many are uncertain.
//
// On a machine that stops for longer than the timeout, a call may be given up before it is written. Its caller is told
// so for certain, and that has to be true. But that must not become the rule.
func (row connectionFault) check(t *testing.T, b *behind, errs []error) (uncertain int) {
	t.Helper()
	for i, err := range errs {
		want := 0
		if errors.Is(err, rl.ErrUncertain) {
			uncertain++
			want = row.sent
		}
		if !errors.Is(err, rl.ErrUnavailable) || errors.Is(err, rl.ErrMisconfigured) {
			t.Errorf("call %d: %v, want an ErrUnavailable", i, err)
		}
		if n := b.charged(t, i); n != want {
			t.Errorf("call %d (%v): charged %d, want %d", i, err, n, want)
		}
	}
	switch {
	case row.uncertain && uncertain < len(errs)/2:
		t.Errorf("only %d of %d calls are uncertain", uncertain, len(errs))
	case !row.uncertain && uncertain > 0:
		t.Errorf("%d calls are uncertain, though none can have been sent", uncertain)
	case row.uncertain && uncertain < len(errs):
		t.Logf("%d of %d calls were given up before they were sent", len(errs)-uncertain, len(errs))
	}
	return uncertain
}

// checkShared checks what holds also for calls that share trips.
func (row connectionFault) checkShared(t *testing.T, b *behind, errs []error) {
	t.Helper()
	for i, err := range errs {
		most := 0
		if errors.Is(err, rl.ErrUncertain) {
			most = row.sent
		}
		if n := b.charged(t, i); n > most || !errors.Is(err, rl.ErrUnavailable) {
			t.Errorf("call %d (%v): charged %d, want at most %d", i, err, n, most)
		}
	}
}
