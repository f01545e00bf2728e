package main

import (
	"context"
	"fmt"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/report"
	"github.com/redislimiter/go-redislimiter/benchmarks/internal/web"
)

// profiles measures HTTP servers: how many requests a second, and p99 at a
// quarter of what the bare handler can do.
func (b *bench) profiles(ctx context.Context) error {
	servers := map[string]*web.Child{}
	for _, profile := range web.Profiles {
		s, err := web.Start(ctx, profile, b.server.Addr)
		if err != nil {
			return err
		}
		defer s.Stop()
		servers[profile] = s
		s.Saturate(b.warming)
	}
	rate, p99s := map[string]report.Series{}, map[string]report.Series{}
	for range (b.settings.rounds + 1) / 2 {
		for _, profile := range web.Profiles {
			b.progress("%s, as fast as it goes", profile)
			o := servers[profile].Saturate(2 * b.lasting)
			if o.OK < 1 {
				return fmt.Errorf("%s: only %.4f of the answers were 200", profile, o.OK)
			}
			rate[profile] = append(rate[profile], o.PerSecond)
		}
	}
	quarter := rate[web.Bare].Median() / 4
	for range (b.settings.rounds + 1) / 2 {
		for _, profile := range web.Profiles {
			b.progress("%s, at a quarter of the bare handler's rate", profile)
			p99s[profile] = append(p99s[profile], float64(servers[profile].Offer(quarter, 5*b.lasting).P99))
		}
	}
	table := report.New("HTTP, against the "+web.Bare, "server", "requests/s", "p99")
	for _, profile := range web.Profiles {
		table.Row(profile, report.Times(rate[profile].Over(rate[web.Bare]).Median()), report.Times(p99s[profile].Over(p99s[web.Bare]).Median()))
	}
	table.Note("A net/http server in a process of its own under vegeta, 10,000 API keys in turn. Requests/s: 64 workers without a pause; " +
		"p99: at a fixed rate, a quarter of what the bare handler does. The load generator shares the processors with the server and Redis.")
	b.print(table)
	return nil
}
