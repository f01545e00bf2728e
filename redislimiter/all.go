package redislimiter

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/redislimiter/go-redislimiter/internal/keys"
	"github.com/redislimiter/go-redislimiter/internal/model"
	"github.com/redislimiter/go-redislimiter/scripts"
)

// A Charge is one of the charges of [AllowAll]: N units to Key, by Limiter.
type Charge struct {
	Limiter Allower
	Key     string
	N       int
}

// AllowAll makes all charges or none, for example one for the address and one
// for the account of a login.
//
// It is one atomic trip if all are Limiters of one client with at most ten limits
// in all, no two of which write the same Redis key, and either that client
// talks to a single node or all keys are the same, so that they share a slot.
// Otherwise it charges in order, and when one is refused, or gives no
// decision, it refunds those before it: for a moment these units are missing
// for others, and they stay charged if the refund does not get through. So put first
// what refuses most.
//
// The Result is that of the charge that refused or is nearest to refusing, with
// the longest waits of all. Its Refund gives back up to n of each charge. Charges of
// one limiter to one key are added up; one with N = 0 looks and holds nothing up.
func AllowAll(ctx context.Context, charges ...Charge) (Result, error) {
	if len(charges) == 0 {
		return Result{}, &argumentError{"redislimiter: AllowAll: charges: none given"}
	}
	for i, c := range charges {
		if c.Limiter == nil {
			return Result{}, &argumentError{fmt.Sprintf("redislimiter: AllowAll: charges[%d].Limiter is nil", i)}
		}
		if c.N < 0 {
			return Result{}, &argumentError{fmt.Sprintf("redislimiter: AllowAll: charges[%d].N is %d, must not be negative", i, c.N)}
		}
	}
	charges = addUp(charges)
	if all, ok := together(charges); ok {
		result, err := all.allow(ctx)
		if err == nil || !strings.Contains(err.Error(), "CROSSSLOT") {
			return result, err
		}
	}
	return inOrder(ctx, charges)
}

// addUp merges charges of one limiter to one key.
func addUp(charges []Charge) []Charge {
	var sum []Charge
	for _, c := range charges {
		i := slices.IndexFunc(sum, func(s Charge) bool { return same(s.Limiter, c.Limiter) && s.Key == c.Key })
		if i < 0 {
			sum = append(sum, c)
		} else {
			sum[i].N += c.N
		}
	}
	return sum
}

// same compares limiters, or clients, as far as they can be compared: functions cannot.
func same(a, b any) bool {
	return reflect.ValueOf(a).Comparable() && reflect.ValueOf(b).Comparable() && a == b
}

// inOrder charges one after the other, and undoes it if one does not allow it.
func inOrder(ctx context.Context, charges []Charge) (Result, error) {
	var made []Result
	for _, c := range charges {
		r, err := c.Limiter.AllowN(ctx, c.Key, c.N)
		if err != nil || !r.Allowed && c.N > 0 {
			// The caller may be gone, but what it was charged has to go back.
			undo := context.WithoutCancel(ctx)
			for _, m := range made {
				_ = m.Refund(undo, int(m.charge.units)) // stays charged: refused too much, never too little
			}
			return r, err
		}
		made = append(made, r)
	}
	return combine(charges, made), nil
}

// combine is the result of charges that were made, or refused, together. Looks
// beside charges hold nothing up.
func combine(charges []Charge, results []Result) Result {
	onlyLooks := !slices.ContainsFunc(charges, func(c Charge) bool { return c.N > 0 })
	var sum Result
	var back refunds
	for i, r := range results {
		if charges[i].N == 0 && !onlyLooks {
			r.Allowed, r.RetryAfter = true, 0
		}
		if r.charge.units > 0 {
			back = append(back, r.charge)
		}
		if i == 0 {
			sum = r
			continue
		}
		both := r
		if !nearer(r, sum) {
			both = sum
		}
		both.Allowed, both.Degraded = r.Allowed && sum.Allowed, r.Degraded || sum.Degraded
		both.RetryAfter, both.ResetAfter = max(r.RetryAfter, sum.RetryAfter), max(r.ResetAfter, sum.ResetAfter)
		both.Delay = max(r.Delay, sum.Delay)
		sum = both
	}
	sum.charge = charge{}
	for _, c := range back {
		sum.charge.to, sum.charge.units = back, max(sum.charge.units, c.units)
	}
	return sum
}

// nearer reports whether a refused, or is nearer to refusing than b is.
func nearer(a, b Result) bool {
	if a.Allowed != b.Allowed {
		return b.Allowed
	}
	if !a.Allowed {
		return a.RetryAfter > b.RetryAfter
	}
	return a.Remaining < b.Remaining
}

// refunds gives back to several limiters.
type refunds []charge

func (r refunds) refund(ctx context.Context, _ string, units, _ int64) error {
	var errs []error
	for _, c := range r {
		errs = append(errs, c.giveBack(ctx, min(units, c.units)))
	}
	return errors.Join(errs...)
}

// maxJointRules keeps a joint script below the 200 local variables that Lua has.
const maxJointRules = 10

// A joint is charges that one script can make.
type joint struct {
	limiters []*Limiter
	ids      []string
	charges  []Charge
}

// together tells whether one script can make the charges.
func together(charges []Charge) (*joint, bool) {
	j := &joint{charges: charges}
	seen := map[string]bool{}
	rules := 0
	for i, c := range charges {
		l, ok := c.Limiter.(*Limiter)
		if !ok || i > 0 && (!same(l.rdb, j.limiters[0].rdb) || c.Key != charges[0].Key && manyNodes(l.rdb)) {
			return nil, false
		}
		id := keys.Escape(c.Key)
		for _, prefix := range l.prefixes {
			if seen[prefix+id] {
				return nil, false // two limiters of one name: each has to see the other's charge
			}
			seen[prefix+id] = true
		}
		if rules += len(l.rules); rules > maxJointRules {
			return nil, false
		}
		j.limiters, j.ids = append(j.limiters, l), append(j.ids, id)
	}
	return j, len(charges) > 1
}

func (j *joint) allow(ctx context.Context) (Result, error) {
	for i, l := range j.limiters {
		if err := checkN(l.name, j.charges[i].N, l.capacity); err != nil {
			return Result{Name: l.name}, err
		}
	}
	first := j.limiters[0]
	script, args, err := j.call()
	if err != nil {
		return Result{Name: first.name}, nameError(first.name, err)
	}
	reply, err := first.send(ctx, first.deadline(ctx), script, j.ids[0], args)
	if err != nil {
		return Result{Name: first.name}, err
	}
	results, at := make([]Result, len(j.limiters)), 0
	for i, l := range j.limiters {
		if len(reply) < at+l.script.Width()+1 {
			return Result{Name: l.name}, &unavailable{name: l.name, cause: fmt.Errorf("unexpected reply of %d integers", len(reply)), uncertain: true}
		}
		taken := model.Taken{Charge: model.Charge{Cost: int64(j.charges[i].N), Count: 1}}
		l.script.DecodeAt(reply, at, &taken)
		if taken.Cost == 0 {
			taken.Granted = 0 // a look is answered as one unit would be
		}
		results[i] = l.result(j.charges[i].Key, &taken, 0)
		at += l.script.Width()
	}
	return combine(j.charges, results), nil
}

// call builds the arguments: the keys of all, the arguments of all, their costs.
func (j *joint) call() (*scripts.Script, []any, error) {
	var each []*scripts.Script
	for _, l := range j.limiters {
		each = append(each, l.script)
	}
	script, err := scripts.All(each)
	if err != nil {
		return nil, nil, err
	}
	args := []any{nil, nil, 0}
	for i, l := range j.limiters {
		for _, prefix := range l.prefixes {
			args = append(args, prefix+j.ids[i]+"}")
		}
	}
	args[2] = len(args) - 3
	for _, l := range j.limiters {
		args = append(args, l.args...)
	}
	for _, c := range j.charges {
		args = append(args, c.N)
	}
	return script, args, nil
}
