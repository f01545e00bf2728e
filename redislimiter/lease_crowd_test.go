package redislimiter_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A lagging limiter takes a while to answer.
type lagging struct {
	rl.Leaser
	lag   time.Duration
	heeds bool // the deadlines of its callers, a little before their contexts do
}

func (l *lagging) wait(ctx context.Context) error {
	lag := l.lag
	if d, ok := ctx.Deadline(); ok && l.heeds && time.Until(d) < lag {
		time.Sleep(time.Until(d))
		return rl.ErrUnavailable
	}
	time.Sleep(lag)
	return nil
}

func (l *lagging) AllowN(ctx context.Context, key string, n int) (rl.Result, error) {
	if err := l.wait(ctx); err != nil {
		return rl.Result{}, err
	}
	return l.Leaser.AllowN(context.WithoutCancel(ctx), key, n)
}

func (l *lagging) AllowAtMost(ctx context.Context, key string, n int) (int, rl.Result, error) {
	if err := l.wait(ctx); err != nil {
		return 0, rl.Result{}, err
	}
	return l.Leaser.AllowAtMost(context.WithoutCancel(ctx), key, n)
}

// Callers of a key that is used up do not wait for each other.
func TestLeaseOfAKeyThatIsUsedUp(t *testing.T) {
	for _, n := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			const lag = 2 * time.Millisecond
			l := rl.Lease(&lagging{Leaser: newMemory(t, rl.TokenBucket(1000, time.Second, 10_000)).(rl.Leaser), lag: lag}, 1000)
			var refused, worst atomic.Int64
			var callers sync.WaitGroup
			start := time.Now()
			for range 200 {
				callers.Go(func() {
					for time.Since(start) < time.Second {
						at := time.Now()
						if !allowAny(t, l, "k", n).Allowed {
							refused.Add(1)
							worst.Store(max(worst.Load(), int64(time.Since(at))))
						}
						time.Sleep(time.Millisecond)
					}
				})
			}
			callers.Wait()
			// A trip of others, one for the next batch, and one alone.
			if took := time.Duration(worst.Load()); took > 4*lag {
				t.Errorf("n = %d: a refusal took %v", n, took)
			}
			if refused.Load() < 20_000 {
				t.Errorf("n = %d: %d refusals in a second of 200 callers", n, refused.Load())
			}
		})
	}
}

// A caller with little time, whose trip was for all, spoils nothing for the others.
func TestLeaseAndHaste(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rl.Lease(&lagging{Leaser: newMemory(t, rl.FixedWindow(100_000_000, time.Hour)).(rl.Leaser), lag: 8 * time.Millisecond, heeds: true}, 100)
		var callers sync.WaitGroup
		start := time.Now()
		for i := range 20 {
			callers.Go(func() {
				for time.Since(start) < time.Second {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					if i%2 == 0 {
						ctx, cancel = context.WithTimeout(t.Context(), 4*time.Millisecond)
					}
					if _, err := l.AllowN(ctx, "k", 1); err != nil && i%2 == 1 {
						t.Error(err)
					}
					cancel()
					time.Sleep(100 * time.Microsecond)
				}
			})
		}
		callers.Wait()
	})
}

// A queue gives each unit a place of its own, leased or not.
func TestLeaseOfAQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := rl.Lease(newMemory(t, rl.LeakyBucket(1000, time.Second, 100_000)).(rl.Leaser), 100)
		last := time.Time{}
		for range 2000 {
			turn := time.Now().Add(allow(t, l, "k", 1, true).Delay)
			if turn.Sub(last) < time.Millisecond {
				t.Fatalf("two units %v apart", turn.Sub(last))
			}
			last = turn
			time.Sleep(100 * time.Microsecond)
		}
	})
}

// A call is one refusal at most to a block.
func TestLeaseAndBlock(t *testing.T) {
	for _, n := range []int{1, 2} {
		synctest.Test(t, func(t *testing.T) {
			l := rl.Lease(newMemory(t, rl.FixedWindow(3000, time.Minute), rl.BlockAfter(1000, time.Hour, time.Hour)).(rl.Leaser), 100)
			refused := 0
			for range 10_000 {
				r := allowAny(t, l, "k", n)
				if !r.Allowed && r.Limit.Algorithm() == "block" {
					break
				}
				if !r.Allowed {
					refused++
				}
				time.Sleep(50 * time.Microsecond)
			}
			if refused < 999 || refused > 1000 {
				t.Errorf("n = %d: the block began after %d refusals", n, refused)
			}
		})
	}
}

// A panic of a client's hook is for one caller to see, and keeps nobody waiting.
func TestLeaseAndPanic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		inner := &panicking{Leaser: newMemory(t, rl.FixedWindow(1_000_000, time.Hour)).(rl.Leaser)}
		l := rl.Lease(inner, 10)
		warm := func() {
			for range 300 {
				allow(t, l, "k", 1, true)
				time.Sleep(100 * time.Microsecond)
			}
		}
		warm()
		inner.panics = true
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			for range 100 {
				allow(t, l, "k", 1, true)
			}
		}()
		inner.panics = false
		warm()
	})
}

type panicking struct {
	rl.Leaser
	panics bool
}

func (p *panicking) AllowAtMost(ctx context.Context, key string, n int) (int, rl.Result, error) {
	if p.panics {
		panic("bug")
	}
	return p.Leaser.AllowAtMost(ctx, key, n)
}
