package integration_test

import (
	"flag"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/eventually"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	"github.com/redislimiter/go-redislimiter/internal/limitertest"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

var soakLength = flag.Duration("soak", 20*time.Second, "how long random faults follow each other; an hour for a release")

// One fault after the other, of random kind and length, under the load of several processes. Nobody gets an error, Redis
// decides again after each, and at the end nothing is left over: no goroutine, no connection, no key.
func TestSoak(t *testing.T) {
	t.Parallel() // it mostly waits, as do the tests of failovers
	seed := firstSeed()
	random := rand.New(rand.NewPCG(seed, 3))
	kind, algorithms := servers.Kinds()[random.IntN(len(servers.Kinds()))], limitertest.Algorithms()
	s := &scene{t: t, kind: kind, server: servers.Start(t, kind), row: row{proxied: true}}
	s.crowd = crowd{
		Name: newName(), Clients: crowdClients, Soak: true, Policy: "local", Algorithm: algorithms[random.IntN(len(algorithms))].Name,
	}
	s.set()
	s.gather()
	began, worst, faulty := time.Now(), time.Duration(0), map[string]int{}
	suitable := slices.DeleteFunc(slices.Clone(rows), func(r row) bool { return r.args != nil || r.login || r.evicts || r.pool > 0 })
	for time.Since(began) < *soakLength {
		s.row = suitable[random.IntN(len(suitable))]
		faulty[s.name]++
		took := s.pass(time.Duration(50+random.IntN(800)) * time.Millisecond)
		if took > resumption {
			t.Logf("%s, the %d. of them: Redis decided again after %v", s.name, faulty[s.name], took)
		}
		worst = max(worst, took)
	}
	s.stop()
	t.Logf("%v on %s, -seed %d: %v; Redis decided again after %v at worst", *soakLength, kind, seed, faulty, worst)
	if worst > resumption+5*s.slack() {
		t.Errorf("Redis decided again after %v, want %v", worst, resumption)
	}
	s.judgeAnswers()
	s.judgeLateness()
	s.judgeLeftovers()
}

// pass lets a fault come and go, and tells how soon Redis decided again.
func (s *scene) pass(length time.Duration) time.Duration {
	s.t.Helper()
	s.proceeds = true
	s.begin(s)
	begun := time.Now()
	s.await("the fault has lasted", func() bool { return time.Since(begun) > length })
	s.heal()
	s.await(s.name+": Redis decides again", func() bool { return s.here.since(s.healed, outcome.byRedis) > crowdClients })
	s.here.mu.Lock()
	defer s.here.mu.Unlock()
	return s.here.account.first(s.healed)
}

func (s *scene) judgeLeftovers() {
	s.t.Helper()
	for process, a := range s.accounts {
		if process > 0 && a.Left > 0 { // this process has those of the proxy
			s.t.Errorf("process %d: %d goroutines are left", process, a.Left)
		}
		if a.Open > 0 {
			s.t.Errorf("process %d: %d connections are open after its client was closed", process, a.Open)
		}
		if a.Sources[rl.SourceRedis] == 0 || a.Sources[rl.SourceMemory] == 0 {
			s.t.Errorf("process %d: decisions %v", process, a.Sources)
		}
	}
	only := dialWith(s.t, &redis.Options{Addr: s.server.Addr, PoolSize: 1})
	s.admin.Close()
	var list string
	defer func() {
		if strings.Count(list, "\n") != 1 {
			s.t.Logf("connections:\n%s", list)
		}
	}()
	eventually.True(s.t, 15*time.Second, "all connections are closed", func() bool {
		var err error
		list, err = only.ClientList(s.t.Context()).Result()
		return err == nil && strings.Count(list, "\n") == 1
	})
	eventually.True(s.t, 15*time.Second, "all keys have expired", func() bool {
		n, err := only.DBSize(s.t.Context()).Result()
		return err == nil && n == 0
	})
}
