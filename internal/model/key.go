package model

// MaxRules is how many rules a limiter may have.
const MaxRules = 8

// A Charge asks for up to Count requests of Cost units each. Cost 0 looks: it
// charges nothing and is answered as a request for one unit would be.
type Charge struct {
	Cost  int64
	Count int64
}

// need is the cost that the answer is about.
func (c Charge) need() int64 { return max(c.Cost, 1) }

// A Taken is the outcome of a Charge: how many of its requests were granted,
// and what each rule stood at before them. It is what the scripts reply.
type Taken struct {
	Charge
	Now     int64
	Granted int64
	Views   [MaxRules]View // one for each rule
}

// Take decides a charge on the states of one key, one state for each rule:
// every rule is checked before any is charged, and a refusal changes nothing.
func Take(rules []Rule, states []State, now int64, c Charge) Taken {
	t := Taken{Charge: c, Now: now}
	if c.Cost > 0 {
		t.Granted = c.Count
	}
	for i, rule := range rules {
		t.Views[i] = rule.See(&states[i], now)
		if t.Granted > 0 {
			t.Granted = max(0, min(t.Granted, rule.Room(t.Views[i], c.Cost)))
		}
	}
	for i, rule := range rules {
		if log, ok := rule.(SlidingWindowLog); ok {
			t.Views[i] = log.Blocker(&states[i], t.Views[i], now, t.Granted*c.Cost, c.need())
		}
	}
	if units := t.Granted * c.Cost; units > 0 {
		for i, rule := range rules {
			rule.Store(&states[i], rule.After(t.Views[i], now, units), now, units)
		}
	}
	return t
}

// A Decision is the answer to one request of a charge.
type Decision struct {
	Allowed   bool
	Rule      int // the rule that refused, or is nearest to it
	Remaining int64
	Retry     int64 // until the same request can be admitted; 0 if allowed
	Reset     int64 // until the key is as if never seen
}

// Request answers the charge's request number i, counted from 0, as if the
// requests had come one after the other at that instant.
func (t *Taken) Request(rules []Rule, i int64) Decision {
	d := Decision{Allowed: i < t.Granted, Remaining: -1}
	charged := min(i+1, t.Granted) * t.Cost
	for j, rule := range rules {
		v := t.Views[j]
		if charged > 0 {
			v = rule.After(v, t.Now, charged)
		}
		d.Reset = max(d.Reset, rule.Reset(v, t.Now))
		remaining := rule.Remaining(v)
		nearest := d.Remaining < 0 || remaining < d.Remaining
		if nearest {
			d.Remaining = remaining
		}
		if d.Allowed {
			if nearest {
				d.Rule = j
			}
			continue
		}
		retry := rule.Retry(v, t.Now, t.need())
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
