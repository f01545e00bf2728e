package integration_test

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

const (
	resumption = time.Second            // after its return Redis has to decide again
	probes     = 5                      // a second reach a dead Redis from one process, at most
	settled    = 500 * time.Millisecond // what was on its way when it began has ended

	goroutinesMore = 150     // of an outage, than before: at most 64 trips with what they need
	growth         = 20      // goroutines of the second half of an outage, than of the first
	heapMore       = 8 << 20 // bytes, of which most is what the test notes
)

// leaks are the server's words for what is none of a caller's business.
var leaks = regexp.MustCompile(`\b(NOSCRIPT|MOVED|ASK|TRYAGAIN|READONLY|LOADING)\b`)

// judge asks of every row the same.
func (s *scene) judge() {
	s.t.Helper()
	charged := s.charges()
	s.judgeShared(charged)
	s.judgeOwn(charged)
	s.judgeAnswers()
	s.judgeLateness()
	if s.down {
		s.judgeOutage()
	}
	s.judgeResumption()
	s.judgeSize()
	s.tell()
	s.leaveNothing()
}

// each calls f for every decision.
func (s *scene) each(f func(process int, d outcome)) {
	for process, a := range s.accounts {
		for _, d := range a.Decisions {
			f(process, d)
		}
	}
}

// charges looks at all keys that were used.
func (s *scene) charges() map[string]int {
	s.t.Helper()
	l := s.direct()
	charged := map[string]int{}
	s.each(func(_ int, d outcome) { charged[d.Key] = 0 })
	keys := make(chan string)
	var mu sync.Mutex
	var running sync.WaitGroup
	for range 32 {
		running.Go(func() {
			for key := range keys {
				r, err := l.AllowN(s.t.Context(), key, 0)
				if err != nil {
					s.t.Errorf("look at %s: %v", key, err)
				}
				mu.Lock()
				charged[key] = crowdLimit - r.Remaining
				mu.Unlock()
			}
		})
	}
	for _, key := range slices.Collect(maps.Keys(charged)) {
		keys <- key
	}
	close(keys)
	running.Wait()
	return charged
}

// judgeShared: no more than the limit of any key, or once more for each time that the server has forgotten it.
func (s *scene) judgeShared(charged map[string]int) {
	s.t.Helper()
	type sum struct{ redis, memory, uncertain int }
	sums := map[string]*sum{}
	s.each(func(_ int, d outcome) {
		if d.own() {
			return
		}
		if sums[d.Key] == nil {
			sums[d.Key] = &sum{}
		}
		switch k := sums[d.Key]; {
		case d.Uncertain:
			k.uncertain++
		case d.Allowed && d.byRedis():
			k.redis++
		}
		if d.Allowed && d.Source == rl.SourceMemory {
			sums[d.Key].memory++
		}
	})
	total, used := 0, 0
	for key, k := range sums {
		total += k.redis
		if k.redis >= crowdLimit {
			used++
		}
		if most := crowdLimit * (1 + s.losses); k.redis > most && !s.evicts {
			s.t.Errorf("%s: Redis admitted %d of %d", key, k.redis, most)
		}
		if k.memory > crowdLimit {
			s.t.Errorf("%s: the processes admitted %d of %d by themselves", key, k.memory, crowdLimit)
		}
		if c := charged[key]; s.keeps() && (c < k.redis || c > k.redis+k.uncertain) {
			s.t.Errorf("%s: charged %d for %d admitted and %d uncertain", key, c, k.redis, k.uncertain)
		}
	}
	if most := crowdLimit * (len(sums) + int(s.evicted()-s.before)); s.evicts && total > most {
		s.t.Errorf("Redis admitted %d of %d", total, most)
	}
	if used == 0 {
		s.t.Error("no key was used up")
	}
}

// keeps reports whether the server remembers everything.
func (s *scene) keeps() bool { return s.losses == 0 && !s.evicts }

// judgeOwn: a call is charged once if it was admitted by Redis, at most once if that is uncertain, and never otherwise.
func (s *scene) judgeOwn(charged map[string]int) {
	s.t.Helper()
	wrong := 0
	s.each(func(process int, d outcome) {
		if !d.own() {
			return
		}
		least, most := 0, 0
		switch {
		case d.Uncertain:
			most = 1
		case d.byRedis():
			least, most = 1, 1
		}
		if !s.keeps() {
			least = 0
		}
		if c := charged[d.Key]; c < least || c > most || d.byRedis() && !d.Allowed {
			if wrong++; wrong <= 5 {
				s.t.Errorf("process %d: charged %d, want %d to %d: %+v", process, c, least, most, d)
			}
		}
	})
}

// judgeAnswers: every caller got a decision, and nobody heard of the server's internals.
func (s *scene) judgeAnswers() {
	s.t.Helper()
	for process, a := range s.accounts {
		for failure, n := range a.Errors {
			s.t.Errorf("process %d: %d callers heard %s", process, n, failure)
		}
	}
}

func (s *scene) judgeLateness() {
	s.t.Helper()
	var late lateness
	for _, a := range s.accounts {
		late.calls, late.timers = append(late.calls, a.Late...), append(late.timers, a.Timers...)
		late.all += a.Calls
	}
	late.check(s.t)
}

// judgeOutage: the policy decided, and the server was left alone.
func (s *scene) judgeOutage() {
	s.t.Helper()
	from, to := s.begun.Add(settled), s.ended
	for process, a := range s.accounts {
		byRedis, byPolicy := 0, []time.Duration(nil)
		for _, d := range a.Decisions {
			if d.At.Before(from) || d.At.After(to) {
				continue
			}
			if d.byRedis() {
				byRedis++
			} else {
				byPolicy = append(byPolicy, d.Took)
			}
		}
		if byRedis > 0 || len(byPolicy) == 0 {
			s.t.Errorf("process %d: in the outage Redis made %d decisions and the policy %d", process, byRedis, len(byPolicy))
		} else if half := at(byPolicy, 0.5); half > time.Millisecond {
			s.t.Errorf("process %d: half of the policy's decisions took more than %v", process, half)
		}
		most := int(probes*to.Sub(from).Seconds()) + 1
		if dials, scripts := between(a.Dials, from, to), between(a.Scripts, from, to); dials > most || scripts > most*max(s.tries, 1) {
			s.t.Errorf("process %d: %d dials and %d scripts in %v of the outage, want at most %d", process, dials, scripts, to.Sub(from), most)
		}
	}
}

func between(instants []time.Time, from, to time.Time) (n int) {
	for _, at := range instants {
		if at.After(from) && at.Before(to) {
			n++
		}
	}
	return n
}

// resumed is how long after its return Redis decided again, in the process where it took longest.
func (s *scene) resumed() (worst time.Duration) {
	for _, a := range s.accounts {
		worst = max(worst, a.first(s.healed))
	}
	return worst
}

// judgeResumption gives a machine that stood still the time that it did.
func (s *scene) judgeResumption() {
	s.t.Helper()
	if took := s.resumed(); took > resumption+5*s.slack() {
		s.t.Errorf("Redis decided again %v after its return, want %v", took, resumption)
	}
}

// slack is how long the machine stood still for a goroutine that did nothing but wait.
func (s *scene) slack() (worst time.Duration) {
	for _, a := range s.accounts {
		for _, timer := range a.Timers {
			worst = max(worst, timer)
		}
	}
	return worst
}

// judgeSize: during the fault a process neither gathers goroutines nor memory. This process is left out: it has the
// proxy's as well.
func (s *scene) judgeSize() {
	s.t.Helper()
	for process, a := range s.accounts[1:] {
		half := s.begun.Add(s.ended.Sub(s.begun) / 2)
		before, first, second := sizeOf(a.Samples, time.Time{}, s.begun), sizeOf(a.Samples, s.begun, half), sizeOf(a.Samples, half, s.ended)
		if before.Goroutines == 0 || first.Goroutines == 0 || second.Goroutines == 0 {
			s.t.Fatalf("process %d was not measured", process+1)
		}
		if first.Goroutines > before.Goroutines+goroutinesMore || second.Goroutines > first.Goroutines+growth {
			s.t.Errorf("process %d: %d goroutines before the fault, %d and then %d in it", process+1, before.Goroutines, first.Goroutines, second.Goroutines)
		}
		if second.Heap > before.Heap+heapMore {
			s.t.Errorf("process %d: %d bytes before the fault, %d in it", process+1, before.Heap, second.Heap)
		}
		if a.Open != 0 {
			s.t.Errorf("process %d: %d connections are open after its client was closed", process+1, a.Open)
		}
	}
}

// sizeOf is the most of a span.
func sizeOf(samples []sample, from, to time.Time) (most sample) {
	for _, s := range samples {
		if s.At.After(from) && s.At.Before(to) {
			most.Goroutines, most.Heap = max(most.Goroutines, s.Goroutines), max(most.Heap, s.Heap)
		}
	}
	return most
}

func (s *scene) tell() {
	admitted, refused := map[rl.Source]int{}, map[rl.Source]int{}
	var slowest time.Duration
	uncertain, dials, scripts := 0, 0, 0
	s.each(func(_ int, d outcome) {
		slowest = max(slowest, d.Took)
		if d.Allowed {
			admitted[d.Source]++
		} else {
			refused[d.Source]++
		}
		if d.Uncertain {
			uncertain++
		}
	})
	for _, a := range s.accounts {
		dials = max(dials, between(a.Dials, s.begun.Add(settled), s.ended))
		scripts = max(scripts, between(a.Scripts, s.begun.Add(settled), s.ended))
	}
	var by []string
	for source := range rl.SourceClosed + 1 {
		if admitted[source]+refused[source] > 0 {
			by = append(by, fmt.Sprintf("%v admitted %d, refused %d", source, admitted[source], refused[source]))
		}
	}
	s.t.Logf("%s; uncertain %d; slowest call %v; resumed after %v; at most %d dials and %d scripts of a process in %v of the fault",
		strings.Join(by, "; "), uncertain, micros(slowest), s.resumed().Round(time.Millisecond), dials, scripts,
		s.ended.Sub(s.begun.Add(settled)).Round(time.Millisecond))
}

// leaveNothing finds keys that would stay for ever, and makes room for the next row.
func (s *scene) leaveNothing() {
	s.t.Helper()
	keys := keysOf(s.t, s.admin, s.crowd.Name)
	pipe := s.admin.Pipeline()
	for _, key := range keys {
		pipe.PTTL(s.t.Context(), key)
	}
	answers, err := pipe.Exec(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	for i, answer := range answers {
		// -2 is the answer for a key that has expired meanwhile.
		if ttl := answer.(*redis.DurationCmd).Val(); ttl == -1 {
			s.t.Errorf("key %s has no expiry", keys[i])
		}
	}
	if len(keys) == 0 {
		s.t.Error("no keys were found")
	}
	admin("flushall")(s)
}
