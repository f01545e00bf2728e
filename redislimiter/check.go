package redislimiter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redislimiter/go-redislimiter/scripts"
)

// checkTimeout bounds a Check whose context has no deadline.
const checkTimeout = 5 * time.Second

// Check tries at start-up what decisions will need: it loads the script on
// every primary, so that the first requests do not have to, and makes and
// deletes charges on each, under a key that no caller can name. It reports
// the first thing that does not work, by errors.Is an ErrMisconfigured if that
// will not mend itself. It waits until ctx is done, or for 5 seconds if ctx
// has no deadline.
func (l *Limiter) Check(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, checkTimeout)
		defer cancel()
	}
	done := make(chan error, 1) // go-redis may not return when ctx is done
	go func() { done <- l.check(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return l.gone(ctx, false)
	}
}

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

func (l *Limiter) check(ctx context.Context) error {
	var nodes atomic.Int64
	load := func(ctx context.Context, node *redis.Client) error {
		nodes.Add(1)
		return l.load(ctx, node, node.Options().Addr)
	}
	nodeOf := func(string) (*redis.Client, error) { return nil, nil }
	var err error
	switch c := l.rdb.(type) {
	case cluster:
		err = c.ForEachMaster(ctx, load)
		nodeOf = func(key string) (*redis.Client, error) { return c.MasterForKey(ctx, key) }
	case ring:
		err = c.ForEachShard(ctx, load)
		nodeOf = c.GetShardClientForKey
	default:
		nodes.Add(1)
		err = l.load(ctx, l.rdb, "the server")
	}
	if err != nil {
		return l.checkError(err)
	}
	return l.probe(ctx, int(nodes.Load()), nodeOf)
}

// load puts the scripts into a node's cache.
func (l *Limiter) load(ctx context.Context, node Client, addr string) error {
	for _, script := range []*scripts.Script{l.script, scripts.Reset} {
		cmd := redis.NewStringCmd(ctx, "script", "load", script.Text)
		if err := node.Process(ctx, cmd); err != nil {
			return fmt.Errorf("SCRIPT LOAD on %s: %w", addr, err)
		}
		if cmd.Val() != script.SHA {
			return fmt.Errorf("SCRIPT LOAD on %s: digest %q, want %q", addr, cmd.Val(), script.SHA)
		}
	}
	return nil
}

// probe makes a charge on each of the nodes, by trying ids until every node
// had one. 1,000 ids miss none of a hundred nodes.
func (l *Limiter) probe(ctx context.Context, nodes int, nodeOf func(key string) (*redis.Client, error)) error {
	deadline, _ := ctx.Deadline() // a start may take longer than a decision
	seen := map[*redis.Client]bool{}
	for i := 0; i < 1000 && len(seen) < nodes; i++ {
		id := "%c" + strconv.Itoa(i) // no escaped id begins like that
		node, err := nodeOf(l.prefixes[0] + id + "}")
		if err != nil {
			return l.checkError(err)
		}
		if seen[node] {
			continue
		}
		seen[node] = true
		for range 2 { // the second charge needs commands that the first does not
			if _, err := l.alone(ctx, deadline, l.script, id, 1, 1); err != nil {
				return err
			}
		}
		if _, err := l.alone(ctx, deadline, scripts.Reset, id); err != nil {
			return err
		}
	}
	return nil
}

func (l *Limiter) checkError(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	return classify(l.name, err, false)
}
