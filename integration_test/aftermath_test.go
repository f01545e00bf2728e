package integration_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// The aftermath is what all processes were told, and what the servers have.
type aftermath struct {
	entries []noted
	charged []int         // by key
	busy    time.Duration // how late the machine was with timers
}

// What the servers say among themselves, and no caller wants to hear.
var serverTalk = []string{"NOSCRIPT", "MOVED", "ASK ", "TRYAGAIN", "READONLY", "LOADING", "CLUSTERDOWN", "MASTERDOWN"}

// check holds for every siege: at most one unit a call is charged, and errors speak to the caller.
func (o aftermath) check(t *testing.T) {
	t.Helper()
	heard := map[string]bool{}
	var slowest time.Duration
	sources := map[rl.Source]int{}
	for _, e := range o.entries {
		sources[e.Source]++
		slowest = max(slowest, e.Took)
		for _, talk := range serverTalk {
			if strings.Contains(e.Failure, talk) && !heard[talk] {
				heard[talk] = true
				t.Errorf("a caller heard of %s: %s", talk, e.Failure)
			}
		}
		if !e.Allowed {
			t.Errorf("refused by %v, %s: the limit is far away", e.Source, e.Failure)
		}
	}
	for key, charged := range o.charged {
		if admitted, uncertain := o.told(key); charged > admitted+uncertain {
			t.Errorf("key %d: charged %d, for %d calls that were admitted and %d uncertain", key, charged, admitted, uncertain)
		}
	}
	t.Logf("%d calls, by source %v; slowest %v of %v; reasons %v", len(o.entries), sources,
		slowest.Round(time.Millisecond), outageTimeout, o.reasons())
}

// reasons counts why Redis did not decide, by the ends of the texts.
func (o aftermath) reasons() map[string]int {
	reasons := map[string]int{}
	for _, e := range o.entries {
		if e.Failure != "" {
			reasons[e.Failure[strings.LastIndex(e.Failure, ": ")+2:]]++
		}
	}
	return reasons
}

// told counts what callers know of a key.
func (o aftermath) told(key int) (admitted, uncertain int) {
	for _, e := range o.entries {
		if e.Key != key {
			continue
		}
		if e.Uncertain {
			uncertain++
		} else if e.Source == rl.SourceRedis && e.Allowed {
			admitted++
		}
	}
	return admitted, uncertain
}

// lost returns how many charges that were answered are gone: at least and at most, since uncertain ones may have been
// made.
func (o aftermath) lost() (least, most int) {
	for key, charged := range o.charged {
		admitted, uncertain := o.told(key)
		least += max(0, admitted-charged)
		most += max(0, admitted+uncertain-charged)
	}
	return least, most
}

// wantNothingLost fails the test if a charge that was answered is gone.
func (o aftermath) wantNothingLost(t *testing.T) {
	t.Helper()
	if least, _ := o.lost(); least > 0 {
		t.Errorf("%d charges that were answered are lost", least)
	}
}

// admittedBetween counts what Redis admitted from one instant to another, on some keys.
func (o aftermath) admittedBetween(from, to time.Time, keys []int) (n int) {
	for _, e := range o.entries {
		if e.Source == rl.SourceRedis && e.Allowed && slices.Contains(keys, e.Key) && e.At.After(from) && e.At.Before(to) {
			n++
		}
	}
	return n
}

// resumed returns how long after an instant Redis had decided again in every process for each of the keys. Where it had
// not when the siege was lifted, that is how long it took at least.
func (o aftermath) resumed(since time.Time, keys []int) (longest time.Duration) {
	for process := range 1 + siegeProcesses {
		for _, key := range keys {
			longest = max(longest, o.firstDecision(process, key, since).Sub(since))
		}
	}
	return longest
}

// firstDecision finds the first one by Redis in a process's book after an instant, or the end of the book.
func (o aftermath) firstDecision(process, key int, since time.Time) time.Time {
	var first, last time.Time
	for _, e := range o.entries {
		if e.Process != process {
			continue
		}
		if e.At.After(last) {
			last = e.At
		}
		if e.Key == key && e.Source == rl.SourceRedis && e.At.After(since) && (first.IsZero() || e.At.Before(first)) {
			first = e.At
		}
	}
	if first.IsZero() {
		return last
	}
	return first
}

// undecidedBetween counts the calls that Redis did not decide.
func (o aftermath) undecidedBetween(from, to time.Time, keys []int) (n int) {
	for _, e := range o.entries {
		if e.Source != rl.SourceRedis && slices.Contains(keys, e.Key) && e.At.After(from) && e.At.Before(to) {
			n++
		}
	}
	return n
}

// wantKept fails the test if charges of keys are gone that nothing has happened to.
func (o aftermath) wantKept(t *testing.T, keys []int) {
	t.Helper()
	for _, key := range keys {
		if admitted, _ := o.told(key); o.charged[key] < admitted {
			t.Errorf("key %d: charged %d, but %d calls were admitted", key, o.charged[key], admitted)
		}
	}
}

// failover checks what a failover costs: the keys' charges of the last second at most, and a moment until Redis decides
// again once there is a primary.
func (o aftermath) failover(t *testing.T, failed, replaced time.Time, keys []int) {
	t.Helper()
	least, most := o.lost()
	lag := time.Second + 10*o.busy
	bound := o.admittedBetween(failed.Add(-lag), replaced, keys)
	resumed := o.resumed(replaced, keys)
	t.Logf("replaced after %v; Redis decided again %v after that; %d to %d charges lost, of %d in the last %v",
		replaced.Sub(failed).Round(time.Millisecond), resumed.Round(time.Millisecond), least, most, bound, lag)
	if least > bound {
		t.Errorf("at least %d charges are lost, though only %d were made in the last %v", least, bound, lag)
	}
	o.wantResumed(t, replaced, keys)
}

const (
	cooldown = 250 * time.Millisecond // of a Fallback
	redial   = time.Second            // how often go-redis dials a node of a cluster that it has given up
)

// wantResumed fails the test if Redis did not decide again in time: at the worst moment that is go-redis's own second
// between dials, a dial to the server that is gone, and two probes. A busy machine misses some.
func (o aftermath) wantResumed(t *testing.T, since time.Time, keys []int) {
	t.Helper()
	most := redial + clientPatience + 2*cooldown + 10*o.busy
	if took := o.resumed(since, keys); took > most {
		t.Errorf("Redis decides again after %v, want %v at most", took, most)
	}
}
