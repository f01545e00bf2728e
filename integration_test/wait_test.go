package integration_test

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// An acknowledged client answers a charge only when so many replicas have it, so that a failover to one of them does not
// lose it. WAIT is about the writes of its own connection, and therefore travels with the charge. A charge that is not
// acknowledged in time is an ErrUncertain: it was made, and may be lost.
type acknowledged struct {
	*redis.Client // of a single primary, or of Sentinel
	replicas      int
	within        time.Duration // well below the limiter's Timeout
}

var errNotReplicated = errors.New("too few replicas have the charge")

func (a acknowledged) Process(ctx context.Context, cmd redis.Cmder) error {
	pipe := a.Pipeline()
	if err := pipe.Process(ctx, cmd); err != nil {
		return err
	}
	wait := pipe.Do(ctx, "wait", a.replicas, a.within.Milliseconds())
	if _, err := pipe.Exec(ctx); err != nil {
		return err
	}
	if n, err := wait.Int(); err != nil || n < a.replicas {
		cmd.SetErr(errNotReplicated)
		return errNotReplicated
	}
	return nil
}

// What an acknowledgement costs, and that none is not an answer.
func TestAcknowledgedCharges(t *testing.T) {
	s := servers.StartSentinel(t, servers.Redis80)
	rdb := place{MasterName: servers.MasterName, Addrs: s.Addrs}.dial(t).(*redis.Client)
	limits := everyAlgorithm(t, siegeLimit)
	plain := newLimiter(t, rdb, limits...)
	waiting := newLimiter(t, acknowledged{rdb, 1, 50 * time.Millisecond}, limits...)
	for _, callers := range []int{1, 64} {
		without, with := medianOf(t, plain, callers), medianOf(t, waiting, callers)
		t.Logf("%d callers: median %v, with an acknowledgement %v", callers, without, with)
	}
	waiting.Timeout = 0
	for _, replica := range s.Nodes[1:] {
		replica.Isolate()
	}
	if r, err := waiting.Allow(t.Context(), "k"); !errors.Is(err, rl.ErrUncertain) || r.Allowed {
		t.Errorf("no replica is there: allowed %v, %v; want an ErrUncertain", r.Allowed, err)
	}
	for _, replica := range s.Nodes[1:] {
		replica.Rejoin()
	}
}

// medianOf measures decisions of several callers.
func medianOf(t *testing.T, l *rl.Limiter, callers int) time.Duration {
	t.Helper()
	const calls = 600
	var mu sync.Mutex
	var took []time.Duration
	var running sync.WaitGroup
	for range callers {
		running.Go(func() {
			for range max(calls/callers, 30) {
				start := time.Now()
				if r, err := l.Allow(t.Context(), "k"); err != nil || !r.Allowed {
					t.Errorf("allowed %v, %v", r.Allowed, err)
					return
				}
				mu.Lock()
				took = append(took, time.Since(start))
				mu.Unlock()
			}
		})
	}
	running.Wait()
	slices.Sort(took)
	if len(took) == 0 {
		return 0
	}
	return micros(took[len(took)/2])
}
