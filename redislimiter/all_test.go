package redislimiter_test

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

func allowAll(t *testing.T, want bool, charges ...rl.Charge) rl.Result {
	t.Helper()
	r, err := rl.AllowAll(t.Context(), charges...)
	if err != nil {
		t.Fatal(err)
	}
	if r.Allowed != want {
		t.Fatalf("allowed %v, want %v: %+v", r.Allowed, want, r)
	}
	return r
}

// All pairs of algorithms: in one trip, and in order with refunds.
func TestAllowAllChargesAllOrNone(t *testing.T) {
	for _, a := range limitertest.Algorithms() {
		for _, b := range limitertest.Algorithms() {
			synctest.Test(t, func(t *testing.T) {
				_, client := limitertest.Redis(t)
				f := &flaky{UniversalClient: client}
				address, err1 := rl.New(f, "address", a.Make(5, time.Hour))
				account, err2 := rl.New(f, "account", b.Make(2, time.Hour))
				if err1 != nil || err2 != nil {
					t.Fatal(err1, err2)
				}
				memory := newMemory(t, a.Make(5, time.Hour))
				for name, first := range map[string]rl.Allower{"one trip": address, "in order": memory} {
					user := name
					f.sent.Store(0)
					for i := range 2 {
						r := allowAll(t, true, rl.Charge{Limiter: first, Key: "ip", N: 1}, rl.Charge{Limiter: account, Key: user, N: 1})
						if r.Remaining != 1-i || r.Name != "account" {
							t.Fatalf("%s: %+v", name, r)
						}
					}
					r := allowAll(t, false, rl.Charge{Limiter: first, Key: "ip", N: 1}, rl.Charge{Limiter: account, Key: user, N: 1})
					if r.Name != "account" || r.RetryAfter <= 0 {
						t.Fatalf("%s: %+v", name, r)
					}
					if trips := f.sent.Load(); name == "one trip" && trips != 4 { // one of them the script's
						t.Fatalf("%d trips", trips)
					}
					if left := allow(t, first, "ip", 0, true).Remaining; left != 3 {
						t.Fatalf("%s %s+%s: the address has %d left, want 3", name, a.Name, b.Name, left)
					}
				}
			})
		}
	}
}

func TestAllowAllAddsUpAndCombines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := limitertest.Redis(t)
		l, err := rl.New(client, "a", rl.TokenBucket(1, time.Second, 10))
		if err != nil {
			t.Fatal(err)
		}
		again, err := rl.New(client, "a", rl.TokenBucket(1, time.Second, 10))
		if err != nil {
			t.Fatal(err)
		}
		r := allowAll(t, true, rl.Charge{Limiter: l, Key: "k", N: 3}, rl.Charge{Limiter: l, Key: "k", N: 4}, rl.Charge{Limiter: l, Key: "other", N: 9})
		if r.Remaining != 1 || r.ResetAfter != 9*time.Second {
			t.Fatalf("%+v", r)
		}
		// The same state by two limiters: each has to see the other's charge.
		allowAll(t, false, rl.Charge{Limiter: l, Key: "k", N: 2}, rl.Charge{Limiter: again, Key: "k", N: 2})
		if left := allow(t, l, "k", 0, true).Remaining; left != 3 {
			t.Fatalf("%d left", left)
		}
		if err := r.Refund(t.Context(), 9); err != nil {
			t.Fatal(err)
		}
		if left := allow(t, l, "k", 0, true).Remaining; left != 10 {
			t.Fatalf("%d left after the refund", left)
		}
		if left := allow(t, l, "other", 0, true).Remaining; left != 10 {
			t.Fatalf("%d left of other after the refund", left)
		}
	})
}

// A refusal counts for the block of the limiter whose rules refused, not for
// those that had room: nobody can block an account from an address that is
// at its limit.
func TestAllowAllBlocksOnlyWhoRefused(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		_, client := limitertest.Redis(t)
		block := rl.BlockAfter(2, time.Hour, 2*time.Hour)
		address, err1 := rl.New(client, "address", rl.TokenBucket(1, time.Hour, 1), block)
		account, err2 := rl.New(client, "account", rl.TokenBucket(1, time.Hour, 9), block)
		if err1 != nil || err2 != nil {
			t.Fatal(err1, err2)
		}
		both := []rl.Charge{{Limiter: address, Key: "ip", N: 1}, {Limiter: account, Key: "victim", N: 1}}
		allowAll(t, true, both...)
		allowAll(t, false, both...)
		if r := allowAll(t, false, both...); r.Name != "address" || r.RetryAfter != 2*time.Hour {
			t.Fatalf("%+v", r)
		}
		allowAll(t, false, both...)
		if r := allow(t, account, "victim", 1, true); r.Remaining != 7 {
			t.Fatalf("%+v", r)
		}
	})
}

// Charging together decides as charging in order with refunds does.
func TestAllowAllDecidesAsTheModel(t *testing.T) {
	for seed := range uint64(8) {
		synctest.Test(t, func(t *testing.T) {
			random := rand.New(rand.NewPCG(seed, 5))
			_, client := limitertest.Redis(t)
			var inRedis, inMemory []rl.Charge
			var histories []*limitertest.History
			for i := range 2 + random.IntN(2) {
				limits := limitertest.RandomLimits(random)[:1]
				l, err := rl.New(client, fmt.Sprint("l", i), limits...)
				if err != nil {
					t.Fatal(err)
				}
				inRedis = append(inRedis, rl.Charge{Limiter: l, Key: "k"})
				inMemory = append(inMemory, rl.Charge{Limiter: newMemory(t, limits...), Key: "k"})
				histories = append(histories, limitertest.NewHistory(random, limits))
			}
			for step := range 40 {
				for i := range inRedis {
					pause, n := histories[i].Next()
					time.Sleep(pause / 3)
					inRedis[i].N, inMemory[i].N = n, n
				}
				got, err1 := rl.AllowAll(t.Context(), inRedis...)
				want, err2 := rl.AllowAll(t.Context(), inMemory...)
				if err1 != nil || err2 != nil {
					t.Fatal(err1, err2)
				}
				if got.Allowed != want.Allowed {
					t.Fatalf("seed %d step %d: %+v\nby Redis: %+v\nby the model: %+v", seed, step, inRedis, got, want)
				}
				for i := range inRedis {
					a, b := allowAny(t, inRedis[i].Limiter, "k", 0), allowAny(t, inMemory[i].Limiter, "k", 0)
					if !limitertest.SameDecision(a, b) {
						t.Fatalf("seed %d step %d limiter %d:\nby Redis: %+v\nby the model: %+v", seed, step, i, a, b)
					}
					histories[i].Saw(a)
				}
			}
		})
	}
}

func TestAllowAllArguments(t *testing.T) {
	m := newMemory(t, rl.TokenBucket(1, time.Hour, 5))
	for want, charges := range map[string][]rl.Charge{
		"charges: none":            nil,
		"charges[1].Limiter":       {{Limiter: m, Key: "k", N: 1}, {Key: "k", N: 1}},
		"charges[0].N is -1":       {{Limiter: m, Key: "k", N: -1}},
		"admits at most 5 at once": {{Limiter: m, Key: "a", N: 1}, {Limiter: m, Key: "b", N: 6}},
	} {
		r, err := rl.AllowAll(t.Context(), charges...)
		if err == nil || r.Allowed || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %+v, %v", want, r, err)
		}
	}
	if left := allow(t, m, "a", 0, true).Remaining; left != 5 {
		t.Fatalf("%d left: the impossible charge did not undo the one before it", left)
	}
	down := &primary{Allower: m}
	down.down.Store(true)
	_, err := rl.AllowAll(t.Context(), rl.Charge{Limiter: m, Key: "a", N: 1}, rl.Charge{Limiter: down, Key: "b", N: 1})
	if !errors.Is(err, rl.ErrUnavailable) || allow(t, m, "a", 0, true).Remaining != 5 {
		t.Fatal(err)
	}
}
