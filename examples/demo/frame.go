package main

import (
	"cmp"
	"slices"
	"time"
)

// A frame is all that the page shows at an instant. Rates are per second, times
// in milliseconds unless their name says otherwise.
type frame struct {
	Now       int64           `json:"now"`
	Settings  settings        `json:"settings"`
	Limit     limitFrame      `json:"limit"`
	Redis     string          `json:"redis"`
	Instances []instanceFrame `json:"instances"`
	Total     instanceFrame   `json:"total"`
	Bound     boundFrame      `json:"bound"`
	Clients   []clientFrame   `json:"clients"`
	Load      loadSettings    `json:"load"`
	Point     point           `json:"point"`
	Notes     []note          `json:"notes"`
	Trial     bool            `json:"trial"` // one is running
}

type limitFrame struct {
	Text      string  `json:"text"`
	PerSecond float64 `json:"perSecond"` // of all clients that run, together
	HasBurst  bool    `json:"hasBurst"`
}

type instanceFrame struct {
	Name        string             `json:"name"`
	Up          bool               `json:"up"`
	Current     bool               `json:"current"` // has the settings that it is meant to have
	Admitted    float64            `json:"admitted"`
	Refused     float64            `json:"refused"`     // 429
	Unavailable float64            `json:"unavailable"` // 503, by policy closed
	Sources     map[string]float64 `json:"sources"`     // decisions of each
	P50         float64            `json:"p50"`
	P99         float64            `json:"p99"`
	Failures    int64              `json:"failures"` // since the start
	Failure     string             `json:"failure"`
}

// boundFrame is what Redis admitted since the limit was set, against what is
// possible, over the clients that it admitted anything of.
type boundFrame struct {
	Admitted int64   `json:"admitted"`
	AtMost   int64   `json:"atMost"`
	Seconds  float64 `json:"seconds"`
	Broken   bool    `json:"broken"` // by some client
}

type clientFrame struct {
	Name       string  `json:"name"`
	Address    string  `json:"address"`
	Manner     string  `json:"manner"`
	Admitted   float64 `json:"admitted"`
	Refused    float64 `json:"refused"`
	Remaining  int     `json:"remaining"` // by the last decision, wherever it was made
	Limit      int     `json:"limit"`
	RetryAfter float64 `json:"retryAfter"`
	Source     string  `json:"source"`
}

// A point is an instant of the charts.
type point struct {
	flow
	At        int64   `json:"t"`
	Limit     float64 `json:"limit"`
	Cut       bool    `json:"cut"` // Redis is
	Instances []flow  `json:"instances"`
}

// A flow is what became of the requests of a second.
type flow struct {
	Redis       float64 `json:"redis"`  // admitted by Redis, or by units it granted
	Memory      float64 `json:"memory"` // admitted by the instances' shares
	Open        float64 `json:"open"`   // admitted by nobody's count
	Refused     float64 `json:"refused"`
	Unavailable float64 `json:"unavailable"`
}

// add adds the decisions of a source.
func (f *flow) add(source string, o outcome, seconds float64) {
	admitted, refused := float64(o.Admitted)/seconds, float64(o.Refused)/seconds
	switch source {
	case "memory":
		f.Memory += admitted
	case "open":
		f.Open += admitted
	default:
		f.Redis += admitted
	}
	if source == "closed" {
		f.Unavailable += refused
	} else {
		f.Refused += refused
	}
}

func (f flow) admitted() float64 { return f.Redis + f.Memory + f.Open }

// frame sums up the samples; the caller has the lock.
func (c *cockpit) frame(load loadSettings, clients []*client) frame {
	w := &c.watched
	newest, before := w.last(rateSamples)
	limit, _ := c.want.limit() // it was checked
	a, _ := algorithmOf(c.want.Algorithm)
	f := frame{
		Now: c.elapsed(newest.at), Settings: c.want, Redis: c.redis, Load: load,
		Limit: limitFrame{
			Text: limit.String(), HasBurst: a.hasBurst,
			PerSecond: float64(limit.Rate()) / limit.Per().Seconds() * float64(len(clients)),
		},
		Bound: w.bound(limit), Notes: slices.Clone(c.notes), Trial: c.trials.running(),
	}
	f.instances(c.nodes, w)
	for i, s := range newest.snapshots {
		f.Instances[i].Current = s != nil && s.Settings == c.want
	}
	f.Point.At, f.Point.Limit, f.Point.Cut = f.Now, f.Limit.PerSecond, !c.want.Connected
	f.clients(clients, newest, before)
	return f
}

// instances fills in each instance and their total.
func (f *frame) instances(nodes []*node, w *watched) {
	newest, before := w.last(rateSamples)
	_, long := w.last(latencySamples)
	seconds := newest.at.Sub(before.at).Seconds()
	var total histogram
	f.Total = instanceFrame{Name: "all", Sources: map[string]float64{}}
	for i, n := range nodes {
		now, then, earlier := newest.snapshots[i], before.snapshots[i], long.snapshots[i]
		one := instanceFrame{Name: n.name, Up: !n.down.Load(), Sources: map[string]float64{}}
		var own flow
		if now != nil && then != nil && earlier != nil && seconds > 0 {
			for source, o := range now.Sources {
				o = o.minus(then.Sources[source])
				if n := o.Admitted + o.Refused; n > 0 {
					one.Sources[source] = float64(n) / seconds
				}
				own.add(source, o, seconds)
				f.Point.add(source, o, seconds)
			}
			latency := now.Latency.minus(earlier.Latency)
			one.quantiles(latency)
			total = total.plus(latency)
			one.Failures, one.Failure = now.Failures, now.Failure
		}
		one.flow(own)
		f.Total.sum(one)
		f.Instances = append(f.Instances, one)
		f.Point.Instances = append(f.Point.Instances, own)
	}
	f.Total.flow(f.Point.flow)
	f.Total.quantiles(total)
}

func (i *instanceFrame) flow(f flow) {
	i.Admitted, i.Refused, i.Unavailable = f.admitted(), f.Refused, f.Unavailable
}

func (i *instanceFrame) quantiles(h histogram) {
	i.P50, i.P99 = h.quantile(0.5).Seconds()*1e3, h.quantile(0.99).Seconds()*1e3
}

// sum adds what is not in the flow.
func (i *instanceFrame) sum(one instanceFrame) {
	i.Up = i.Up || one.Up
	i.Failures += one.Failures
	for source, rate := range one.Sources {
		i.Sources[source] += rate
	}
	if one.Failure != "" {
		i.Failure = one.Failure
	}
}

// lingers is how long a client that does not run any more, or came by hand, is
// shown.
const lingers = 15 * time.Second

// clients fills in those that run, and after them others that were seen lately.
func (f *frame) clients(running []*client, newest, before sample) {
	now, then := merged(newest), merged(before)
	seconds := newest.at.Sub(before.at).Seconds()
	row := func(name, key, manner string) {
		c := now[key]
		one := clientFrame{
			Name: name, Address: key, Manner: manner,
			Remaining: c.Remaining, Limit: c.Limit, RetryAfter: c.RetryAfter * 1e3, Source: c.Source,
		}
		if rates := c.All.minus(then[key].All); seconds > 0 {
			// An instance that was started again has forgotten what it counted.
			one.Admitted, one.Refused = max(0, float64(rates.Admitted)/seconds), max(0, float64(rates.Refused)/seconds)
		}
		f.Clients = append(f.Clients, one)
		delete(now, key)
	}
	for _, c := range running {
		row(c.name, c.address.String(), c.manner())
	}
	var others []string
	for key, c := range now {
		if newest.at.Sub(c.At) < lingers {
			others = append(others, key)
		}
	}
	slices.SortFunc(others, func(a, b string) int { return cmp.Or(now[b].At.Compare(now[a].At), cmp.Compare(a, b)) })
	for _, key := range others[:min(len(others), 4)] {
		row("seen lately", key, "")
	}
}

// merged is what all instances know of each client: the sums, and the last
// decision of any of them.
func merged(s sample) map[string]clientStat {
	all := map[string]clientStat{}
	for _, snapshot := range s.snapshots {
		if snapshot == nil {
			continue
		}
		for key, c := range snapshot.Clients {
			known := all[key]
			sum := known.All.plus(c.All)
			if known.At.After(c.At) {
				c = known
			}
			c.All = sum
			all[key] = c
		}
	}
	return all
}
