// Package peers makes one function of every limiter that is compared.
package peers

import (
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/load"
)

// A Quota is a limit in the words of a token bucket. Peers that know windows
// only take Burst for each of theirs.
type Quota struct {
	Rate  int
	Per   time.Duration
	Burst int
}

// The quotas that are measured.
var (
	// Plenty admits everything, and comes back so slowly that a key stays
	// between two calls, as it does in earnest.
	Plenty = Quota{1, 30 * time.Second, 100_000_000}
	// Single admits one request, and refuses all that follow for an hour.
	Single = Quota{1, time.Hour, 1}
	// Log admits so much that a lone caller in turn over LogKeys keys is
	// hardly ever refused, and keeps no more than 128 hits.
	Log = Quota{128, 2 * time.Second, 128}
)

// LogKeys is how many keys share the calls where Log is used.
const LogKeys = 50

// A Peer is a limiter that is compared.
type Peer struct {
	Name string
	// Open makes the limiter anew. The client is nil for those in memory.
	Open func(rdb redis.UniversalClient, q Quota) (load.Decide, error)
	// Every is how many calls there are to one whose latency is taken, for
	// those that mostly decide without a trip. 0: each is.
	Every int
	// Sent is how many commands the client has sent, of those that ran on the
	// server, where scripts run others. nil: each is a script.
	Sent func(ran map[string]float64) float64
}

// Commands tells commands that were sent from those that scripts called.
func (p Peer) Commands(ran map[string]float64) float64 {
	if p.Sent != nil {
		return p.Sent(ran)
	}
	return ran["evalsha"] + ran["eval"]
}

// PoolSize is how many connections each limiter has unless told otherwise.
const PoolSize = 64

// Client makes the client of one limiter; all have the same options. Contexts
// without a deadline are used, and go-redis's own timeouts are the defaults. The
// option for deadlines is the one that docs/operations.md advises.
func Client(addr string, connections int) *redis.Client {
	return redis.NewClient(&redis.Options{Addr: addr, PoolSize: connections, ContextTimeoutEnabled: true})
}

// Named looks peers up.
func Named(names ...string) []Peer {
	var all []Peer
	for _, name := range names {
		i := slices.IndexFunc(catalog, func(p Peer) bool { return p.Name == name })
		if i < 0 {
			panic("no such limiter: " + name)
		}
		all = append(all, catalog[i])
	}
	return all
}

var catalog = slices.Concat(ours, decorated, inRedis, inMemory)

// sum adds up the counts of some commands.
func sum(ran map[string]float64, commands ...string) (n float64) {
	for command, calls := range maps.All(ran) {
		if slices.Contains(commands, command) {
			n += calls
		}
	}
	return n
}

// All are all limiters that can be compared.
func All() []Peer { return slices.Clone(catalog) }
