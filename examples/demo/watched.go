package main

import (
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A sample is what all instances had counted at an instant; nil for one that
// did not answer.
type sample struct {
	at        time.Time
	snapshots []*snapshot
}

const (
	rateSamples    = 4  // rates are over a second
	latencySamples = 20 // quantiles over five
)

// watched are the samples of the last seconds, and the base from which is
// summed up what Redis admitted since the limit was set.
type watched struct {
	samples []sample
	carried []carried // one for each instance

	rebase bool
	since  time.Time
	base   []map[string]int64 // admitted by Redis, by client, then
}

// carried is what an instance's counters had reached before it was started
// again, so that they go on from there.
type carried struct {
	boot     string
	last     *snapshot
	sources  map[string]outcome
	latency  histogram
	failures int64
}

// continued makes counters that never fall out of those that instances reported.
func (w *watched) continued(snapshots []*snapshot) []*snapshot {
	if w.carried == nil {
		w.carried = make([]carried, len(snapshots))
	}
	all := make([]*snapshot, len(snapshots))
	for i, s := range snapshots {
		if s != nil {
			all[i] = w.carried[i].add(*s)
			if w.carried[i].last != nil && w.base != nil && w.carried[i].boot != s.Boot {
				w.base[i] = nil // it counts from 0 again
			}
			w.carried[i].boot = s.Boot
		} else if last := w.carried[i].last; last != nil {
			all[i] = last // nothing is added while it is down
			continue
		}
		w.carried[i].last = all[i]
	}
	return all
}

func (c *carried) add(s snapshot) *snapshot {
	if c.last != nil && c.boot != s.Boot {
		c.sources, c.latency, c.failures = c.last.Sources, c.last.Latency, c.last.Failures
	}
	sources := map[string]outcome{}
	for source, o := range c.sources {
		sources[source] = o
	}
	for source, o := range s.Sources {
		sources[source] = sources[source].plus(o)
	}
	s.Sources, s.Latency, s.Failures = sources, s.Latency.plus(c.latency), s.Failures+c.failures
	return &s
}

// add keeps a sample. began is when the first instance was asked: all that the
// sample does not have was decided after it.
func (w *watched) add(s sample, began time.Time) {
	w.samples = append(w.samples, s)
	w.samples = w.samples[max(0, len(w.samples)-latencySamples-1):]
	if w.base != nil && !w.rebase {
		return
	}
	w.rebase, w.since = false, began
	w.base = make([]map[string]int64, len(s.snapshots))
	for i, snapshot := range s.snapshots {
		w.base[i] = byRedis(snapshot)
	}
}

func byRedis(s *snapshot) map[string]int64 {
	admitted := map[string]int64{}
	if s != nil {
		for key, c := range s.Clients {
			admitted[key] = c.ByRedis
		}
	}
	return admitted
}

// last returns the newest sample and the one that is n before it, or the oldest.
func (w *watched) last(n int) (newest, before sample) {
	newest = w.samples[len(w.samples)-1]
	return newest, w.samples[max(0, len(w.samples)-1-n)]
}

// bound sums up what Redis admitted since the limit was set, and what it can
// have admitted at most.
func (w *watched) bound(limit redislimiter.Limit) boundFrame {
	newest, _ := w.last(0)
	span := newest.at.Sub(w.since)
	admitted := map[string]int64{}
	for i, s := range newest.snapshots {
		for key, n := range byRedis(s) {
			if n -= w.base[i][key]; n > 0 {
				admitted[key] += n
			}
		}
	}
	b := boundFrame{Seconds: span.Seconds()}
	each := atMost(limit, span)
	for _, n := range admitted {
		b.Admitted += n
		b.AtMost += each
		b.Broken = b.Broken || n > each
	}
	return b
}
