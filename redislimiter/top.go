package redislimiter

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash"
	"net/http"
	"slices"
	"sync"
	"time"
)

// A TopRefused tells who is being limited: the keys that were refused most
// often, by its Observe method given to [Observe]. It holds n counters, however
// many keys there are, and takes no lock while nothing is refused.
//
// Counts are estimates with a bound: a key was refused at most Count times, and at
// least Count - Error times. Every key that has more than a share of 1/n in all
// refusals is among the n. Somebody who sends ever new keys raises the errors, but
// hides nobody with such a share.
//
// What is counted are refusals, whatever they would have cost, those that [Shadow] let
// through included; looks, failures and the answers of [Closed] are not. A limiter's
// name and a key together are what is told apart, so one TopRefused can observe
// all limiters of a process.
//
// Source: the algorithm is Space-Saving, by A. Metwally, D. Agrawal and
// A. El Abbadi, "Efficient computation of frequent and top-k elements in data
// streams", ICDT 2005.
type TopRefused struct {
	size int
	mac  hash.Hash // nil keeps keys in clear

	mu    sync.Mutex
	heap  []counter // the least count first
	index map[refusedKey]int
	total int64
	since time.Time
	part  [sha256.BlockSize]byte // for held: what an interface is given would be allocated
	sum   [sha256.Size]byte
}

// A refusedKey is a key as it is held: hashed, or in clear.
type refusedKey struct {
	name  string
	hash  uint64
	clear string
}

type counter struct {
	refusedKey
	count, err int64
}

// Refused is how often a key was refused.
type Refused struct {
	// Name is the name of the limiter.
	Name string `json:"name"`
	// Key is the key's hash, or the key itself where that was asked for.
	Key string `json:"key"`
	// Count is how often it was refused at most.
	Count int64 `json:"count"`
	// Error is by how much Count may be too large.
	Error int64 `json:"error"`
}

// NewTopRefused makes a TopRefused of n counters, about 200 bytes each, that
// holds the keys' hashes only: the first 16 hexadecimal digits of their
// HMAC-SHA256 under secret. It takes a secret because keys are often addresses,
// which are few enough to try all. Instances with the same secret give a key the
// same hash, so that what they report can be added up, and who has the secret
// can look for a key:
//
//	printf %s customer-7 | openssl dgst -sha256 -hmac "$SECRET" | sed 's/.*= //' | cut -c 1-16
//
// It is an error if n is below 1 or secret is empty.
func NewTopRefused(n int, secret []byte) (*TopRefused, error) {
	if len(secret) == 0 {
		return nil, &argumentError{"redislimiter: NewTopRefused: secret is empty"}
	}
	t, err := newTop("NewTopRefused", n)
	if err == nil {
		t.mac = hmac.New(sha256.New, secret)
	}
	return t, err
}

// NewTopRefusedInClear makes a TopRefused that holds the keys as they are, which
// then appear in what it serves. Those above 128 bytes are held as their hash.
// It is an error if n is below 1.
func NewTopRefusedInClear(n int) (*TopRefused, error) {
	return newTop("NewTopRefusedInClear", n)
}

func newTop(function string, n int) (*TopRefused, error) {
	if n < 1 {
		return nil, &argumentError{fmt.Sprintf("redislimiter: %s: n is %d, must be at least 1", function, n)}
	}
	return &TopRefused{size: n, index: map[refusedKey]int{}, since: time.Now()}, nil
}

// Observe counts e if it is a refusal.
func (t *TopRefused) Observe(_ context.Context, e Event) {
	r := e.Result
	if e.Err != nil || e.N == 0 || r.Allowed && !r.Shadowed || r.Source == SourceClosed {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.add(t.held(r.Name, e.Key))
}

// held is a key as it is held. The mu is held.
func (t *TopRefused) held(name, key string) refusedKey {
	if t.mac == nil {
		return refusedKey{name: name, clear: shortID(key)}
	}
	t.mac.Reset()
	for rest := key; rest != ""; {
		n := copy(t.part[:], rest)
		t.mac.Write(t.part[:n])
		rest = rest[n:]
	}
	return refusedKey{name: name, hash: binary.BigEndian.Uint64(t.mac.Sum(t.sum[:0]))}
}

// add counts a refusal. A new key takes the place of the one with the least
// count, and may have had that many before.
func (t *TopRefused) add(k refusedKey) {
	t.total++
	i, ok := t.index[k]
	switch {
	case ok:
		t.heap[i].count++
	case len(t.heap) < t.size:
		i = len(t.heap)
		t.heap = append(t.heap, counter{k, 1, 0})
		t.index[k] = i
		t.up(i) // nothing is below 1
		return
	default:
		least := t.heap[0]
		delete(t.index, least.refusedKey)
		t.heap[0] = counter{k, least.count + 1, least.count}
		t.index[k] = 0
	}
	t.down(i)
}

func (t *TopRefused) up(i int) {
	for i > 0 && t.heap[i].count < t.heap[(i-1)/2].count {
		t.swap(i, (i-1)/2)
		i = (i - 1) / 2
	}
}

func (t *TopRefused) down(i int) {
	for {
		child := 2*i + 1
		if child+1 < len(t.heap) && t.heap[child+1].count < t.heap[child].count {
			child++
		}
		if child >= len(t.heap) || t.heap[i].count <= t.heap[child].count {
			return
		}
		t.swap(i, child)
		i = child
	}
}

func (t *TopRefused) swap(i, j int) {
	t.heap[i], t.heap[j] = t.heap[j], t.heap[i]
	t.index[t.heap[i].refusedKey], t.index[t.heap[j].refusedKey] = i, j
}

// Top returns the keys that were refused most often, up to n, the most often
// first.
func (t *TopRefused) Top() []Refused { return t.report().Refused }

// Reset begins to count afresh. Counts are otherwise those since the beginning, so a
// process that runs for months may want to call it every hour or so.
func (t *TopRefused) Reset() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.heap, t.total, t.since = nil, 0, time.Now()
	clear(t.index)
}

// A topReport is what ServeHTTP writes.
type topReport struct {
	Refused  []Refused `json:"refused"`
	Total    int64     `json:"total"`
	Unlisted int64     `json:"unlisted"`
	Since    time.Time `json:"since"`
}

func (t *TopRefused) report() topReport {
	t.mu.Lock()
	held := slices.Clone(t.heap)
	report := topReport{Refused: make([]Refused, len(held)), Total: t.total, Since: t.since}
	t.mu.Unlock()
	for i, c := range held {
		key := c.clear
		if t.mac != nil {
			key = fmt.Sprintf("%016x", c.hash)
		}
		report.Refused[i] = Refused{Name: c.name, Key: key, Count: c.count, Error: c.err}
	}
	if len(held) == t.size {
		report.Unlisted = held[0].count
	}
	slices.SortFunc(report.Refused, func(a, b Refused) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	return report
}

// ServeHTTP answers GET with the counts as JSON:
//
//	{"refused":[{"name":"api","key":"8f5c0b9e1a2d3c4b","count":12,"error":0}],"total":12,"unlisted":0,"since":"2026-01-02T15:04:05Z"}
//
// refused is what Top returns, the most often refused first, and never null;
// total is all refusals since the instant since; and no key that is not listed
// was refused more than unlisted times. Reports of several instances are merged by
// adding up the counts and errors of each name and key, with unlisted as both
// where a report does not list it. Serve it to operators only.
func (t *TopRefused) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, http.StatusText(http.StatusMethodNotAllowed), http.StatusMethodNotAllowed)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_ = json.NewEncoder(w).Encode(t.report()) // a client that has left
}
