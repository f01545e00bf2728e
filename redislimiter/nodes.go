package redislimiter

import (
	"context"
	"hash/maphash"
	"sync"
	"sync/atomic"

	"github.com/redis/go-redis/v9"
)

// The clients that have several nodes.
type (
	cluster interface {
		ForEachMaster(ctx context.Context, fn func(context.Context, *redis.Client) error) error
		MasterForKey(ctx context.Context, key string) (*redis.Client, error)
	}
	ring interface {
		ForEachShard(ctx context.Context, fn func(context.Context, *redis.Client) error) error
		GetShardClientForKey(key string) (*redis.Client, error)
	}
)

// manyNodes reports whether keys of a client may live on different nodes.
func manyNodes(rdb Client) bool {
	switch rdb.(type) {
	case cluster, ring:
		return true
	}
	return false
}

// A pipeliner is a client that sends several commands at once, each to the
// node it belongs to.
type pipeliner interface {
	Pipeline() redis.Pipeliner
}

// A server is what the trips of a lane go to.
type server struct {
	rdb    Client
	client dialler // the same, or nil if it is not known how it is dialled
	door   *door
	prompt bool // it is a go-redis client that obeys deadlines
}

// A dialler is a client of one server, which tells how it dials it.
type dialler interface {
	Options() *redis.Options
	PoolStats() *redis.PoolStats
}

func serverOf(rdb Client) *server {
	s := &server{rdb: rdb, door: &door{}}
	if client, ok := rdb.(dialler); ok {
		if options := client.Options(); options != nil && options.Dialer != nil {
			s.client, s.door = client, doorOf(options)
			_, own := rdb.(*redis.Client)
			s.prompt = own && options.ContextTimeoutEnabled
		}
	}
	return s
}

// nodes are the lanes of a limiter whose client has several nodes. Calls of one
// node share trips, and wait for no other node.
//
// Which node a key belongs to is what go-redis believes at the moment, and
// only decides who travels with whom: go-redis sends each command where it
// belongs, and on to where that is found to be.
type nodes struct {
	known  atomic.Bool // go-redis knows which they are, and tells without asking a server
	byNode sync.Map    // *redis.Client to *lane
	count  atomic.Int64

	// Before that, ids are spread over lanes whose trips take one id only.
	spread []lane
	seed   maphash.Seed
}

const (
	spreadLanes = 256
	// maxNodes bounds the lanes of nodes. There are more only where nodes
	// come and go, and then those of the gone are forgotten.
	maxNodes = 1024
)

func newNodes(rdb Client) *nodes {
	n := &nodes{spread: make([]lane, spreadLanes), seed: maphash.MakeSeed()}
	unknown := &server{rdb: rdb, door: &door{}}
	for i := range n.spread {
		n.spread[i] = lane{most: sharedTrips, apart: true, server: unknown}
	}
	return n
}

// laneOf picks the lane of an id.
func (l *Limiter) laneOf(id string) *lane {
	if l.nodes == nil {
		return &l.lane
	}
	if n := l.nodeLane(id); n != nil {
		return n
	}
	return &l.nodes.spread[maphash.String(l.nodes.seed, id)%spreadLanes]
}

// nodeLane is the lane of the node that has an id, or nil if that is not known.
func (l *Limiter) nodeLane(id string) *lane {
	if l.pipeliner == nil || !l.nodes.known.Load() {
		return nil
	}
	var node *redis.Client
	var err error
	// An id hashes like the keys that have it between their braces.
	switch rdb := l.rdb.(type) {
	case cluster:
		node, err = rdb.MasterForKey(context.Background(), id)
	case ring:
		node, err = rdb.GetShardClientForKey(id)
	}
	if err != nil || node == nil {
		return nil
	}
	if n, ok := l.nodes.byNode.Load(node); ok {
		return n.(*lane)
	}
	if l.nodes.count.Add(1) > maxNodes {
		l.nodes.byNode.Clear()
		l.nodes.count.Store(1)
	}
	n, _ := l.nodes.byNode.LoadOrStore(node, &lane{most: sharedTrips, server: serverOf(node)})
	return n.(*lane)
}

// serverOf is the server that a call goes to, as far as it is known.
func (l *Limiter) serverOf(n *lane, id string) *server {
	if n.server == nil {
		if node := l.nodeLane(id); node != nil {
			return node.server
		}
		return l.nodes.spread[0].server
	}
	return n.server
}
