package redislimiter

import (
	"context"
	"time"
)

// reloadEvery bounds how often a cluster is asked for its slots because of
// calls that got no answer.
const reloadEvery = 250 * time.Millisecond

// lost is told that a call found no node, or got no answer from one. go-redis
// asks a cluster anew who has which slots when a node sends a call elsewhere,
// but not when a node is silent: after a failover it would go on asking the
// dead primary for up to ten seconds.
func (l *Limiter) lost() {
	rdb, ok := l.rdb.(interface{ ReloadState(context.Context) })
	if !ok {
		return
	}
	now, last := time.Now().UnixNano(), l.reloaded.Load()
	if now-last >= int64(reloadEvery) && l.reloaded.CompareAndSwap(last, now) {
		rdb.ReloadState(context.Background())
	}
}
