// Package eventually waits for a condition that another process brings about, when nothing can be subscribed to.
package eventually

import (
	"testing"
	"time"
)

// pause is the time between two looks. It costs less than a round trip through a container's network, and is long
// enough not to starve what is waited for on a machine with few cores.
const pause = 5 * time.Millisecond

// True fails the test unless condition holds within the given time. The first look is immediate, so a condition that
// already holds costs nothing. What is part of the failure message: "the server answers again".
func True(tb testing.TB, within time.Duration, what string, condition func() bool) {
	tb.Helper()
	if condition() {
		return
	}
	deadline := time.NewTimer(within)
	defer deadline.Stop()
	again := time.NewTicker(pause)
	defer again.Stop()
	for {
		select {
		case <-again.C:
			if condition() {
				return
			}
		case <-deadline.C:
			tb.Fatalf("not within %v: %s", within, what)
		}
	}
}
