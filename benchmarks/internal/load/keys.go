package load

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
)

// Pool is how many different keys there are.
const Pool = 1_000_000

// pool is made once, at the first use, so that no measurement pays for making
// names.
var pool = sync.OnceValue(func() []string {
	const width = len("user:0000000")
	var text strings.Builder
	text.Grow(Pool * width)
	for i := range Pool {
		fmt.Fprintf(&text, "user:%07d", i)
	}
	all, keys := text.String(), make([]string, Pool)
	for i := range keys {
		keys[i] = all[i*width : (i+1)*width]
	}
	return keys
})

// Key is the name of key i.
func Key(i int) string {
	if i < Pool {
		return pool()[i]
	}
	return fmt.Sprintf("user:%07d", i)
}

// One is a hot key: every caller asks about it.
func One(int, int) func() string {
	key := Key(0)
	return func() string { return key }
}

// Among picks one of n keys at random, all equally often.
func Among(n int) Keys {
	return func(caller, _ int) func() string {
		keys := pool()[:min(n, Pool)]                      // of ten million, any million will do
		random := rand.New(rand.NewPCG(uint64(caller), 1)) // the same in every run
		return func() string { return keys[random.IntN(len(keys))] }
	}
}

// Continued lets each caller go on in its sequence where it was the time
// before, when it is asked for again by as many callers.
func Continued(keys Keys) Keys {
	sequences := map[int]func() string{}
	return func(caller, callers int) func() string {
		if sequences[caller] == nil {
			sequences[caller] = keys(caller, callers)
		}
		return sequences[caller]
	}
}

// Spent is how many keys [MostlySpent] repeats.
const Spent = 1000

// MostlySpent asks about one of the first Spent keys nine times out of ten, and
// about one that was not asked about before the tenth time. With a limit of
// one request that is 90 % refused.
func MostlySpent(caller, callers int) func() string {
	spent, fresh := Among(Spent)(caller, callers), pool()[Spent:]
	share := len(fresh) / callers
	fresh = fresh[caller*share:]
	calls := caller // so that a crowd whose callers ask a few times each does it too
	return func() string {
		if calls++; calls%10 != 0 {
			return spent()
		}
		return fresh[calls/10%share]
	}
}
