package middleware

import (
	"crypto/rand"
	"encoding/binary"
	"hash/maphash"
	"math"
	"net/http"
	"reflect"
	"strings"
	"sync/atomic"
	"unsafe"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// Limiters around each other have to know what the outer ones did with the same
// request: a limiter that is mounted twice charges once, and only the most
// restrictive is reported. A context would tell them, for three allocations and
// 400 bytes on each request. Instead, a note is kept in the response's header
// map while the handler runs, where nobody looks: in the spare capacity of the
// RateLimit field's value, or, where that field is not sent, of an entry without
// values, whose name is no header's because of its colon. Neither is ever sent,
// cloned or printed. The outermost limiter takes the note away when it returns.
//
// A handler in between that has a header map of its own, as http.TimeoutHandler
// does, hides the note. It holds no keys, only their hash under a random seed.
const noteEntry = "Redislimiter:charged"

// token begins every note, so that nothing else is taken for one.
var token = rand.Text()[:8]

// noteOf finds the place of a note behind the values of a header, or nil.
func noteOf(values []string) *string {
	if cap(values) < 2 {
		return nil
	}
	if place := &values[:2][1]; strings.HasPrefix(*place, token) {
		return place
	}
	return nil
}

// chargesIn reads the note; the longer one is the newer.
func chargesIn(h http.Header) charges {
	var found charges
	for _, place := range [...]*string{noteOf(h[fieldLimit]), noteOf(h[noteEntry])} {
		if place != nil && len(*place) > len(token)+len(found) {
			found = charges((*place)[len(token):])
		}
	}
	return found
}

// keep writes the note.
func keep(h http.Header, note string) {
	if place := noteOf(h[fieldLimit]); place != nil {
		*place = note
		return
	}
	entry := values(2)
	entry[1] = note
	h[noteEntry] = entry[:0]
}

// forget takes the note away, so that nothing is left of it if the header map
// is used again.
func forget(h http.Header) {
	if value := h[fieldLimit]; noteOf(value) != nil {
		h[fieldLimit] = value[:len(value):len(value)]
	}
	delete(h, noteEntry)
}

// A charge is what one limiter did, packed into a string of chargeSize bytes.
type charge struct {
	id        uint64 // of limiter and key together
	cost      int
	remaining int // as reported, or math.MaxInt
	reset     int64
}

const chargeSize = 32

// refusedInside stands in place of the cost of a charge that was refused after
// another mount of the same limiter had charged.
const refusedInside = -1

// appendNote writes the note of all charges and this one.
func (c charge) appendNote(b []byte, before charges) []byte {
	b = append(b, token...)
	b = append(b, before...)
	b = binary.BigEndian.AppendUint64(b, c.id)
	b = binary.BigEndian.AppendUint64(b, uint64(c.cost))
	b = binary.BigEndian.AppendUint64(b, uint64(c.remaining))
	return binary.BigEndian.AppendUint64(b, uint64(c.reset))
}

func chargeOf(s string) charge {
	number := func(i int) (n uint64) {
		for j := range 8 {
			n = n<<8 | uint64(s[i+j])
		}
		return n
	}
	return charge{number(0), int(number(8)), int(number(16)), int64(number(24))}
}

// charges are those of a request so far, one behind the other.
type charges string

// all goes through them.
func (c charges) all(yield func(charge) bool) {
	for ; len(c) >= chargeSize; c = c[chargeSize:] {
		if !yield(chargeOf(string(c[:chargeSize]))) {
			return
		}
	}
}

// cost is what has been charged under an id.
func (c charges) cost(id uint64) (cost int, found bool) {
	for done := range c.all {
		if done.id == id {
			cost, found = max(cost, done.cost), true
		}
	}
	return cost, found
}

// refused tells whether a mount of the same limiter further in has refused.
func (c charges) refused(id uint64) bool {
	for done := range c.all {
		if done.id == id && done.cost == refusedInside {
			return true
		}
	}
	return false
}

// cover tells whether the client has been told something at least as
// restrictive: less that is left, or as much and as long to wait.
func (c charges) cover(by charge) bool {
	for done := range c.all {
		if done.remaining < by.remaining || done.remaining == by.remaining && done.reset >= by.reset {
			return true
		}
	}
	return false
}

var (
	seed     = maphash.MakeSeed()
	limiters atomic.Uint64
)

// limiterID is the same for the same limiter, wherever it is mounted. A function
// is the same as its copies: they point to one closure, which is not collected
// as long as a middleware has it. What else cannot be compared is the same only
// within one middleware.
func limiterID(l redislimiter.Allower) uint64 {
	if f, ok := l.(redislimiter.AllowerFunc); ok {
		return maphash.Comparable(seed, *(*unsafe.Pointer)(unsafe.Pointer(&f)))
	}
	if reflect.ValueOf(l).Comparable() {
		return maphash.Comparable(seed, l)
	}
	return maphash.Comparable(seed, limiters.Add(1))
}

func chargeID(limiter uint64, key string) uint64 {
	return limiter ^ maphash.String(seed, key)
}

// report tells the client what was decided, unless an outer limiter has told
// it something more restrictive, and notes the charge for the inner ones.
func (m *middleware) report(h http.Header, r *redislimiter.Result, done charge, before charges) {
	markFallback(h, r)
	tell := counted(r)
	if tell {
		done.remaining, done.reset = max(r.Remaining, 0), resetSeconds(r)
		tell = !r.Allowed || r.Shadowed || !before.cover(done)
	}
	if !counted(r) || m.silent || r.Name == "" { // nothing is told, and so it keeps no inner one silent
		done.remaining = math.MaxInt
	}
	if tell && r.Allowed && m.plain {
		reportDefault(h, r, done, before)
		return
	}
	if tell {
		m.headers(h, *r)
	}
	if r.Allowed {
		var buffer [192]byte
		keep(h, string(done.appendNote(buffer[:0], before)))
	}
}

// reportDefault is [RateLimitFields] with the note in the same allocation.
func reportDefault(h http.Header, r *redislimiter.Result, done charge, before charges) {
	p := policyOf(r)
	if p == nil {
		keep(h, string(done.appendNote(nil, before)))
		return
	}
	var buffer [256]byte
	text := appendLimit(buffer[:0], p, r)
	field := len(text)
	both := string(done.appendNote(text, before))
	value := values(2)
	value[0], value[1] = both[:field], both[field:]
	h[fieldPolicy], h[fieldLimit] = p.field, value[:1]
}
