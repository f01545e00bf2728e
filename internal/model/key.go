package model

// MaxRules is how many rules a limiter may have.
const MaxRules = 8

// A Charge asks for up to Count requests of Cost units each. Cost 0 looks: it
// charges nothing and is answered as a request for one unit would be.
type Charge struct {
	Cost  int64
	Count int64
	// AtMost: it is one request that takes what it can get, so that it is
	// refused only if it gets nothing.
	AtMost bool
}

// need is the cost that the answer is about.
func (c Charge) need() int64 { return max(c.Cost, 1) }

// refused is how many requests a grant leaves refused.
func (c Charge) refused(granted int64) int64 {
	switch {
	case c.Cost == 0:
		return 0
	case c.AtMost:
		return max(1-granted, 0)
	}
	return c.Count - granted
}

// A Taken is the outcome of a Charge: how many of its requests were granted,
// and what each rule stood at before them. It is what the scripts reply.
type Taken struct {
	Charge
	Now     int64
	Granted int64
	Views   [MaxRules]View // one for each rule
	// Spared: these rules had room, and the request was refused because
	// another limiter, asked together with this one, had none.
	Spared bool
}

// CopyTo copies what there is of so many rules: most limiters have one, and
// all eight views are what a shared trip would spend most of its copying on.
func (t *Taken) CopyTo(to *Taken, rules int) {
	to.Charge, to.Now, to.Granted, to.Spared = t.Charge, t.Now, t.Granted, t.Spared
	copy(to.Views[:rules], t.Views[:rules])
}

// Take decides a charge on the states of one key, one state for each rule:
// every rule is checked before any is charged. A refusal changes nothing but
// what BlockAfter counts.
func Take(rules []Rule, states []State, now int64, c Charge) Taken {
	t := Taken{Charge: c, Now: now}
	if c.Cost > 0 {
		t.Granted = c.Count
	}
	for i, rule := range rules {
		t.Views[i] = rule.See(&states[i], now)
		if t.Granted > 0 {
			t.Granted = max(0, min(t.Granted, rule.Room(t.Views[i], now, c.Cost)))
		}
	}
	units, refused := t.Granted*c.Cost, c.refused(t.Granted)
	for i, rule := range rules {
		if log, ok := rule.(SlidingWindowLog); ok {
			t.Views[i] = log.Blocker(&states[i], t.Views[i], now, units, c.need())
		}
	}
	if t.Changed(rules) {
		for i, rule := range rules {
			store(rule, &states[i], t.Views[i], now, units, refused)
		}
	}
	return t
}

// store charges a rule, and lets one that counts refusals count them. A rule
// beside such a one is stored as it stands when nothing is charged, since they
// share a hash.
func store(rule Rule, s *State, v View, now, units, refused int64) {
	switch r := rule.(type) {
	case BlockAfter:
		r.Store(s, r.Refuse(v, now, refused), now, 0)
	case SlidingWindowLog:
		if units > 0 {
			r.Store(s, r.After(v, now, units), now, units)
		}
	default:
		rule.Store(s, rule.After(v, now, units), now, units)
	}
}

// Changed reports whether the charge has left anything to remember.
func (t *Taken) Changed(rules []Rule) bool {
	if t.Granted > 0 {
		return true
	}
	for i, rule := range rules {
		if _, ok := rule.(BlockAfter); ok && t.Views[i].Prev == 0 && t.refused(0) > 0 {
			return true
		}
	}
	return false
}

// A Decision is the answer to one request of a charge.
type Decision struct {
	Allowed   bool
	Rule      int // the rule that refused, or is nearest to it
	Remaining int64
	Retry     int64 // until the same request can be admitted; 0 if allowed
	Reset     int64 // until the key is as if never seen
	Delay     int64 // until the turn of a request that was admitted to a queue
}

// Request answers the charge's request number i, counted from 0, as if the
// requests had come one after the other at that instant. Of a charge AtMost,
// request Granted-1 is the one to ask for, or 0 if nothing was granted.
func (t *Taken) Request(rules []Rule, i int64) Decision {
	d := Decision{Allowed: i < t.Granted, Remaining: Unlimited}
	for j, rule := range rules {
		v := t.after(rule, t.Views[j], i)
		d.Reset = max(d.Reset, rule.Reset(v, t.Now))
		if queue, ok := rule.(LeakyBucket); ok && d.Allowed {
			d.Delay = max(d.Delay, queue.Delay(rule.After(t.Views[j], t.Now, i*t.Cost), t.Now))
		}
		remaining := rule.Remaining(v, t.Now)
		nearest := remaining < d.Remaining
		d.Remaining = min(d.Remaining, remaining)
		retry := int64(0)
		if !d.Allowed {
			retry = rule.Retry(v, t.Now, t.need())
		}
		if retry > d.Retry || d.Retry == 0 && nearest {
			d.Rule = j
		}
		d.Retry = max(d.Retry, retry)
	}
	if t.Cost == 0 {
		d.Allowed = d.Retry == 0
	}
	return d
}

// after is a rule's view once the request number i was answered.
func (t *Taken) after(rule Rule, v View, i int64) View {
	if b, ok := rule.(BlockAfter); ok {
		if t.Spared {
			return v
		}
		return b.Refuse(v, t.Now, min(max(i+1-t.Granted, 0), t.refused(t.Granted)))
	}
	if charged := min(i+1, t.Granted) * t.Cost; charged > 0 {
		return rule.After(v, t.Now, charged)
	}
	return v
}
