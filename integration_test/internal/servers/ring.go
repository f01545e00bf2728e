package servers

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

const shards = 2

// SharedRing returns the addresses of two servers for a redis.Ring, by name, that all tests of this binary use. As
// with Shared, nobody may stop, flush or configure them.
func SharedRing(tb testing.TB, kind Kind) map[string]string {
	tb.Helper()
	s := sharedAs(tb, "ring", kind, func(ctx context.Context, kind Kind) (*Server, error) {
		var programs []string
		for i := range shards {
			programs = append(programs, plainServer(kind, firstPort+i))
		}
		s, err := startNode(ctx, kind, programs)
		for _, addr := range manyAddrs(s, shards) {
			err = errors.Join(err, awaitReady(ctx, addr))
		}
		return s, err
	})
	addrs := map[string]string{}
	for i, addr := range manyAddrs(s, shards) {
		addrs[fmt.Sprint("shard", i)] = addr
	}
	return addrs
}
