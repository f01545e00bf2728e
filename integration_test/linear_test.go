package integration_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"
	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/faults"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

const (
	linearLimit   = 12 // of each key, and nothing comes back
	linearKeys    = 1520
	linearCalls   = 24 // of each key
	linearCallers = 16
	linearClients = 4
)

// An ask is one call on a key. Calls on different keys have nothing to do with each other.
type ask struct{ key, n int }

// An answer is what its caller knows of it.
type answer struct {
	uncertain, allowed bool
	remaining          int
}

// A key's state is what it was charged. A call that is uncertain was charged at some instant after it was made, or
// never; all others were at some instant until their answer, exactly as that says.
var keyModel = porcupine.NondeterministicModel{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		keys := make([][]porcupine.Operation, linearKeys)
		for _, op := range history {
			key := op.Input.(ask).key
			keys[key] = append(keys[key], op)
		}
		return keys
	},
	Init: func() []any { return []any{0} },
	Step: func(state, input, output any) []any {
		used, n, out := state.(int), input.(ask).n, output.(answer)
		charged := used + n
		switch fits := charged <= linearLimit; {
		case out.uncertain && fits:
			return []any{used, charged}
		case out.uncertain:
			return []any{used}
		case out.allowed && fits && out.remaining == linearLimit-charged:
			return []any{charged}
		case !out.allowed && !fits && out.remaining == linearLimit-used:
			return []any{used}
		}
		return nil
	},
	DescribeOperation: func(input, output any) string { return fmt.Sprintf("%+v: %+v", input, output) },
}

// Calls of several clients on shared keys, while replies and requests are lost and the network stalls: there is one
// order of all charges that explains what every caller was told, the uncertain ones charged once or not at all.
func TestUncertainChargesAreLinearizable(t *testing.T) {
	onEach(t, func(t *testing.T, kind servers.Kind) {
		proxy := faults.Start(t, servers.Shared(t, kind))
		var history operations
		limiters := make([]*rl.Limiter, linearClients)
		for i := range limiters {
			rdb := dialWith(t, &redis.Options{Addr: proxy.Addr()})
			if i == 0 {
				limiters[i] = newLimiter(t, rdb, rl.FixedWindow(linearLimit, 24*time.Hour))
			} else {
				limiters[i] = named(t, rdb, limiters[0].Name(), limiters[0].Limits()...)
			}
			limiters[i].Timeout = 200 * time.Millisecond
		}
		var trouble loop
		trouble.start(func(ctx context.Context) { disturb(ctx, proxy) })
		history.record(limiters)
		trouble.end()
		proxy.Heal()
		direct := named(t, dial(t, servers.Shared(t, kind)), limiters[0].Name(), limiters[0].Limits()...)
		for key := range linearKeys { // what was charged in the end has to be explained, too
			history.call(direct, ask{key, 1})
		}
		history.check(t)
	})
}

// disturb lets something go wrong for a moment.
func disturb(ctx context.Context, proxy *faults.Proxy) {
	kinds := []faults.Fault{
		{Kind: faults.LoseReply, Command: "evalsha", Times: 1},
		{Kind: faults.LoseRequest, Command: "evalsha", Times: 1},
		{Kind: faults.Stall, Command: "evalsha"},
		{},
	}
	f := kinds[rand.IntN(len(kinds))]
	proxy.Set(f)
	length := 20 * time.Millisecond
	if f.Kind == faults.Stall && rand.IntN(4) == 0 {
		length = 250 * time.Millisecond // longer than callers wait
	}
	moment := time.NewTimer(length)
	defer moment.Stop()
	select {
	case <-moment.C:
	case <-ctx.Done():
	}
}

// Operations are what all callers did.
type operations struct {
	mu        sync.Mutex
	all       []porcupine.Operation
	uncertain int
	errs      []error
}

// record makes the calls, those of a few neighbouring keys at a time, so that they meet.
func (o *operations) record(limiters []*rl.Limiter) {
	asks := make(chan ask)
	var running sync.WaitGroup
	for caller := range linearCallers {
		running.Go(func() {
			for a := range asks {
				o.call(limiters[caller%len(limiters)], a)
			}
		})
	}
	const neighbours = 4 // divides linearKeys
	for i := range linearKeys * linearCalls {
		asks <- ask{key: i/(neighbours*linearCalls)*neighbours + i%neighbours, n: 1 + rand.IntN(2)}
	}
	close(asks)
	running.Wait()
}

var epoch = time.Now() // monotonic, unlike what the wall says

func (o *operations) call(l *rl.Limiter, a ask) {
	begin := time.Since(epoch)
	r, err := l.AllowN(context.Background(), fmt.Sprint(a.key), a.n)
	op := porcupine.Operation{
		Input: a, Call: int64(begin), Return: int64(time.Since(epoch)),
		Output: answer{allowed: r.Allowed, remaining: r.Remaining},
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case errors.Is(err, rl.ErrUncertain):
		o.uncertain++
		op.Output, op.Return = answer{uncertain: true}, math.MaxInt64 // it may be on its way for long
	case err != nil:
		if o.errs = append(o.errs, err); errors.Is(err, rl.ErrUnavailable) {
			return // it certainly was not charged: as if it had not been
		}
	}
	o.all = append(o.all, op)
}

func (o *operations) check(t *testing.T) {
	t.Helper()
	t.Logf("%d calls, %d of them uncertain, %d certain failures", len(o.all)+len(o.errs), o.uncertain, len(o.errs))
	if o.uncertain < 20 {
		t.Error("too few uncertain calls to learn from")
	}
	if result := porcupine.CheckOperationsTimeout(keyModel.ToModel(), o.all, time.Minute); result != porcupine.Ok {
		t.Errorf("no order of the charges explains the answers: %s", result)
	}
}

// The check finds what it is there for: a charge made twice, one that was reported and not made, one made by a call that
// was told for certain that nothing was charged.
func TestLinearizabilityCheckFindsWrongCharges(t *testing.T) {
	told := func(remaining int, allowed bool) answer { return answer{allowed: allowed, remaining: remaining} }
	for name, answers := range map[string][]answer{
		"right":                {told(11, true), {uncertain: true}, told(9, true), told(8, true)},
		"right, not charged":   {told(11, true), {uncertain: true}, told(10, true), told(9, true)},
		"charged twice":        {told(11, true), {uncertain: true}, told(8, true)},
		"not charged":          {told(11, true), told(11, true)},
		"charged by a failure": {told(11, true), told(9, true)},
	} {
		var history []porcupine.Operation
		for i, a := range answers {
			op := porcupine.Operation{Input: ask{0, 1}, Call: int64(2 * i), Return: int64(2*i + 1), Output: a}
			if a.uncertain {
				op.Return = math.MaxInt64
			}
			history = append(history, op)
		}
		want := name[:5] == "right"
		if porcupine.CheckOperations(keyModel.ToModel(), history) != want {
			t.Errorf("%s: taken for %v", name, !want)
		}
	}
}
