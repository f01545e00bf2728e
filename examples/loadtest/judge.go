package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A verdict is what was admitted, what should have been, and what is wrong.
type verdict struct {
	expected string
	problems []string
}

func (v *verdict) wrong(format string, args ...any) {
	v.problems = append(v.problems, fmt.Sprintf(format, args...))
}

// tolerance is how far what a bucket admits may be from the arithmetic.
const tolerance = 0.01

// ordered sorts charges by Redis's clock and sums up what was granted.
func ordered(charges []charge) (sorted []charge, granted int64) {
	sorted = slices.Clone(charges)
	slices.SortStableFunc(sorted, func(a, b charge) int { return int(a.now - b.now) })
	for _, c := range sorted {
		granted += c.granted
	}
	return sorted, granted
}

// judgeBucket holds a client that always asks for more to capacity + rate ×
// time, by Redis's own clock. What a full bucket could not take back, because the
// client was not fast enough, is not expected. Nothing may be granted that was
// not there, and nothing refused that was. answered is how many requests were
// admitted.
func judgeBucket(limit redislimiter.Limit, charges []charge, answered int64) verdict {
	var v verdict
	sorted, granted := ordered(charges)
	if len(sorted) == 0 {
		v.wrong("nothing was decided")
		return v
	}
	// A token is as many parts as its period has microseconds, so that each
	// microsecond brings a whole number of them.
	token, rate := limit.Per().Microseconds(), int64(limit.Rate())
	full := int64(limit.Burst()) * token
	level, last, lost := full, sorted[0].now, int64(0)
	for _, c := range sorted {
		level += (c.now - last) * rate
		lost += max(level-full, 0)
		level, last = min(level, full), c.now
		if right := min(c.asked, level/token); c.granted != right && len(v.problems) == 0 {
			v.wrong("%d µs after the first, %d were asked for, %d were there, and %d were granted", c.now-sorted[0].now, c.asked, level/token, c.granted)
		}
		level -= c.granted * token
	}
	most := float64(full+(last-sorted[0].now)*rate) / float64(token)
	expected := most - float64(lost)/float64(token)
	v.expected = fmt.Sprintf("%.1f", expected)
	if off := float64(granted) - expected; off > expected*tolerance || -off > expected*tolerance {
		v.wrong("admitted %d, which is not within 1 %% of %.1f", granted, expected)
	}
	if float64(granted) > most+1e-6 {
		v.wrong("admitted %d, more than %.1f", granted, most)
	}
	v.match(granted, answered)
	return v
}

// match compares what Redis granted with what clients were answered.
func (v *verdict) match(granted, answered int64) {
	if granted != answered {
		v.wrong("Redis granted %d requests, %d were answered 200", granted, answered)
	}
}

// judgeLog looks at every window that ends with a charge: none may hold more
// than the limit, and nothing may be refused for which there was room.
func judgeLog(limit redislimiter.Limit, charges []charge, answered int64) verdict {
	var v verdict
	sorted, granted := ordered(charges)
	if len(sorted) == 0 {
		v.wrong("nothing was decided")
		return v
	}
	per, rate := limit.Per().Microseconds(), int64(limit.Rate())
	over, held, first := int64(0), int64(0), 0
	for _, c := range sorted {
		for sorted[first].now <= c.now-per {
			held -= sorted[first].granted
			first++
		}
		if room := max(rate-held, 0); c.granted < min(c.asked, room) && len(v.problems) == 0 {
			v.wrong("%d µs after the first, %d were asked for, there was room for %d, and %d were granted", c.now-sorted[0].now, c.asked, room, c.granted)
		}
		held += c.granted
		over = max(over, held-rate)
	}
	windows := (sorted[len(sorted)-1].now - sorted[0].now) / per
	v.expected = fmt.Sprintf("≤ %d", rate*(windows+1))
	if over > 0 {
		v.wrong("a window of %v had %d over the limit", limit.Per(), over)
	}
	v.match(granted, answered)
	return v
}

// judgeClients holds each client to its burst: the run is shorter than a refill,
// or else what came back in the meantime is allowed for.
func judgeClients(limit redislimiter.Limit, decisions []decision, span time.Duration) verdict {
	var v verdict
	type sum struct{ asked, admitted int }
	clients := map[string]*sum{}
	for _, d := range decisions {
		c, ok := clients[d.key]
		if !ok {
			c = &sum{}
			clients[d.key] = c
		}
		c.asked++
		switch {
		case d.failed || d.source != redislimiter.SourceRedis:
			v.wrong("a request of %s was not decided by Redis", d.key)
			return v
		case d.allowed:
			c.admitted++
		}
	}
	refilled := int(int64(span) * int64(limit.Rate()) / int64(limit.Per()))
	expected := 0
	for key, c := range clients {
		least, most := min(c.asked, limit.Burst()), min(c.asked, limit.Burst()+refilled)
		expected += least
		if c.admitted < least || c.admitted > most {
			v.wrong("%s was admitted %d times of %d, not %d", key, c.admitted, c.asked, least)
			break
		}
	}
	if len(clients) == 0 {
		v.wrong("nothing was decided")
	}
	v.expected = fmt.Sprint(expected)
	return v
}

// An outage is when Redis was away.
type outage struct {
	cut, restored time.Time
}

// lateness bounds how long after an outage Redis decides again.
const lateness = 2 * time.Second

// A tally is what one source has decided.
type tally struct {
	decided, admitted int
	first, last       time.Time // when it was first asked, and had last answered
}

// bySource sums up decisions. It reports whether there was one each time.
func bySource(decisions []decision) (tallies map[redislimiter.Source]tally, all bool) {
	tallies = map[redislimiter.Source]tally{}
	for _, d := range decisions {
		if d.failed {
			return nil, false
		}
		t := tallies[d.source]
		if t.first.IsZero() || d.began.Before(t.first) {
			t.first = d.began
		}
		t.last = d.at
		t.decided++
		if d.allowed {
			t.admitted++
		}
		tallies[d.source] = t
	}
	return tallies, true
}

// judgeOutage checks that the limit held by Redis, that the secondary decided
// as it should while Redis was away, and that Redis decides again soon.
//
// The limit is checked by Redis's clock. What was charged and whose reply was
// lost is not in the charges, which makes the bound no smaller.
func judgeOutage(limit redislimiter.Limit, secondary redislimiter.Source, decisions []decision, charges []charge, away outage) verdict {
	var v verdict
	tallies, all := bySource(decisions)
	if !all {
		v.wrong("a request was not decided at all")
		return v
	}
	if sorted, granted := ordered(charges); len(sorted) > 0 {
		bound := mostWithin(limit, time.Duration(sorted[len(sorted)-1].now-sorted[0].now)*time.Microsecond)
		v.expected = fmt.Sprintf("≤ %d", bound)
		if granted > bound {
			v.wrong("Redis admitted %d, at most %d are possible", granted, bound)
		}
	}
	byOther, byRedis := tallies[secondary], tallies[redislimiter.SourceRedis]
	if byOther.decided == 0 || byRedis.decided == 0 {
		v.wrong("%v decided %d times, Redis %d times", secondary, byOther.decided, byRedis.decided)
	}
	v.judgeSecondary(limit, secondary, byOther)
	back := slices.IndexFunc(decisions, func(d decision) bool { return d.source == redislimiter.SourceRedis && d.at.After(away.restored) })
	if back < 0 || decisions[back].at.Sub(away.restored) > lateness {
		v.wrong("Redis did not decide again within %v", lateness)
	}
	return v
}

// judgeSecondary holds what decided without Redis to its policy.
func (v *verdict) judgeSecondary(limit redislimiter.Limit, secondary redislimiter.Source, t tally) {
	switch secondary {
	case redislimiter.SourceOpen:
		v.expected += " + all while open"
		if t.admitted != t.decided {
			v.wrong("fail open has refused %d", t.decided-t.admitted)
		}
	case redislimiter.SourceClosed:
		v.expected += " + none while closed"
		if t.admitted != 0 {
			v.wrong("fail closed has admitted %d", t.admitted)
		}
	default:
		bound := mostWithin(limit, t.last.Sub(t.first))
		v.expected += fmt.Sprintf(" + ≤ %d local", bound)
		if int64(t.admitted) > bound {
			v.wrong("%v admitted %d, at most %d are possible", secondary, t.admitted, bound)
		}
	}
}

// mostWithin is what a bucket can admit within a span.
func mostWithin(limit redislimiter.Limit, span time.Duration) int64 {
	return int64(limit.Burst()) + int64(span)*int64(limit.Rate())/int64(limit.Per())
}
