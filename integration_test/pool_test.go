package integration_test

import (
	"errors"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/faults"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// Calls that never get a connection are certainly not charged: neither before their caller is told so, nor later, when
// go-redis gets a connection for them after all.
func TestCallsWithoutAConnectionAreNotCharged(t *testing.T) {
	var late lateness
	onEachShared(t, func(t *testing.T, direct *redis.Client) {
		t.Run("new connections hang", func(t *testing.T) {
			b := behindProxy(t, direct.Options().Addr, faultyCalls, faultyCallers)
			b.proxy.CutAll()
			b.proxy.Set(faults.Fault{Kind: faults.Stall})
			b.wantCertain(t, &late, 0)
		})
		t.Run("the pool is exhausted", func(t *testing.T) {
			const connections = 3
			b := behindProxy(t, direct.Options().Addr, connections, faultyCallers)
			b.proxy.Set(faults.Fault{Kind: faults.Stall, Command: "evalsha"})
			b.wantCertain(t, &late, connections)
		})
	})
	late.check(t)
}

// wantCertain lets calls fail: exactly those that had one of the few connections are uncertain, and only they are
// charged when the server goes on.
func (b *behind) wantCertain(t *testing.T, late *lateness, connections int) {
	t.Helper()
	errs := b.callEach(t, late)
	b.proxy.Heal()
	sent := b.settled(t)
	uncertain := 0
	for i, err := range errs {
		want := 0
		if errors.Is(err, rl.ErrUncertain) {
			uncertain++
			want = 1
		}
		if n := b.charged(t, i); n != want || !errors.Is(err, rl.ErrUnavailable) {
			t.Errorf("call %d (%v): charged %d, want %d", i, err, n, want)
		}
	}
	if uncertain != sent || uncertain > connections || connections > 0 && uncertain == 0 {
		t.Errorf("%d calls are uncertain, %d were sent, for %d connections", uncertain, sent, connections)
	}
}
