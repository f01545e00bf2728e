package main

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A guard is a limiter that can be exchanged while it is in use. Once change
// returns, no decision of the former limiter is under way.
type guard struct {
	mu      sync.RWMutex
	limiter redislimiter.Allower
}

func (g *guard) AllowN(ctx context.Context, key string, n int) (redislimiter.Result, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.limiter.AllowN(ctx, key, n)
}

func (g *guard) change(limiter redislimiter.Allower) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.limiter = limiter
}

// assembly is what a limiter with a failure policy is put together from.
type assembly struct {
	rdb     redis.UniversalClient
	name    string
	timeout time.Duration
	onError func(error)
}

// limiter is what an application sets up at its start: the limiter, perhaps a
// memory of refusals, and what decides while Redis does not.
func (a assembly) limiter(s settings) (*redislimiter.Limiter, redislimiter.Allower, error) {
	limit, err := s.limit()
	if err != nil {
		return nil, nil, err
	}
	p, err := policyOf(s.OnFailure, limit, s.Instances)
	if err != nil {
		return nil, nil, err
	}
	return a.guarded(limit, p, s.CacheDenials)
}

func (a assembly) guarded(limit redislimiter.Limit, p policy, cache bool) (*redislimiter.Limiter, redislimiter.Allower, error) {
	limiter, err := redislimiter.New(a.rdb, a.name, limit)
	if err != nil {
		return nil, nil, err
	}
	limiter.Timeout = a.timeout
	secondary, err := p.secondary(a.name)
	if err != nil {
		return nil, nil, err
	}
	var primary redislimiter.Allower = limiter
	if cache {
		primary = redislimiter.CacheDenials(limiter, 10_000)
	}
	return limiter, &redislimiter.Fallback{Primary: primary, Secondary: secondary, OnError: a.onError}, nil
}
