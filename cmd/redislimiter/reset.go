package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redislimiter/go-redislimiter/internal/keys"
	"github.com/redislimiter/go-redislimiter/scripts"
)

type resetCommand struct {
	limiter
	server
}

// Help is what --help says about the command.
func (*resetCommand) Help() string {
	return `Deletes every Redis key of KEY under NAME, whatever the algorithms: the key is as if never seen. Instances that remember refusals (CacheDenials) go on refusing until the refusal that they know has ended.`
}

// Validate names what is wrong before anything is sent.
func (c *resetCommand) Validate() error {
	return cmp.Or(c.limiter.valid(), c.server.valid())
}

// A forgotten is what reset has deleted.
type forgotten struct {
	Name    string   `json:"name"`
	Key     string   `json:"key"`
	Deleted []string `json:"deleted"` // Redis keys
}

func (c *resetCommand) run(ctx context.Context, timeout time.Duration) (report, error) {
	client, to, err := c.open(timeout)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	all := keys.Of(c.Name, scripts.AllSegments(), c.Key)
	deleted := make([]*redis.IntCmd, len(all))
	_, err = client.Pipelined(ctx, func(p redis.Pipeliner) error {
		for n, key := range all {
			deleted[n] = p.Del(ctx, key)
		}
		return nil
	})
	done := &forgotten{Name: c.Name, Key: c.Key, Deleted: []string{}}
	for n, key := range all {
		if deleted[n].Val() > 0 {
			done.Deleted = append(done.Deleted, key)
		}
	}
	if err != nil {
		return nil, to.explain(err)
	}
	return done, nil
}

func (f *forgotten) text(w io.Writer) {
	if len(f.Deleted) == 0 {
		fmt.Fprintf(w, "%s, key %q: nothing was stored\n", f.Name, f.Key)
	}
	for _, key := range f.Deleted {
		fmt.Fprintf(w, "deleted %s\n", key)
	}
}
