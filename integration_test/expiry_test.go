package integration_test

import (
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/internal/limitertest"
)

// A key that a server takes away a microsecond before its state has ceased to matter gives quota away. Servers count
// expiry in whole milliseconds from the millisecond of the command, and may take a key away as soon as the last of them
// begins. So the instant they have noted must not lie before the end of the state.
func TestKeysOutliveTheirState(t *testing.T) {
	onEachShared(t, func(t *testing.T, rdb *redis.Client) {
		eachAlgorithm(t, func(t *testing.T, a limitertest.Algorithm) {
			clock := &clockReader{Client: rdb}
			l := newLimiter(t, clock, a.Make(50, 9973*time.Millisecond))
			early, worst := 0, time.Duration(0)
			const charges = 50
			for range charges {
				r := allow(t, l, "k", 1, true)
				end := time.UnixMicro(clock.now.Load()).Add(r.ResetAfter)
				noted, err := rdb.PExpireTime(t.Context(), keysOf(t, rdb, l.Name())[0]).Result()
				if err != nil {
					t.Fatal(err)
				}
				if before := end.Sub(time.UnixMilli(noted.Milliseconds())); before > 0 {
					early++
					worst = max(worst, before)
				}
			}
			if early > 0 {
				t.Errorf("%d of %d charges could be forgotten before their time, by %v at worst", early, charges, worst)
			}
		})
	})
}
