package integration_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/eventually"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
)

// What happens to a cluster, one thing after the other, each under load from several processes.
func TestClusterUnderLoad(t *testing.T) {
	t.Parallel() // see TestSoak
	onEach(t, func(t *testing.T, kind servers.Kind) {
		c := &clusterUnderLoad{Cluster: servers.StartCluster(t, kind)}
		t.Run("slots are moved", c.moveSlots)
		t.Run("manual failover", c.handOver)
		t.Run("a primary is isolated", c.isolate)
		t.Run("a primary is killed", c.kill)
		t.Run("a primary is killed that has charges of its own", c.killAhead)
	})
}

type clusterUnderLoad struct{ *servers.Cluster }

func (c *clusterUnderLoad) place() place { return place{Cluster: true, Addrs: c.Addrs()} }

// roleOf asks a node for its own view. One that is gone has none.
func roleOf(t *testing.T, node *servers.Server) string {
	t.Helper()
	rdb := redis.NewClient(&redis.Options{
		Addr: node.Addr, DialTimeout: 300 * time.Millisecond, ReadTimeout: time.Second, DialerRetries: 1, MaxRetries: -1,
	})
	defer rdb.Close()
	answer, err := rdb.Do(t.Context(), "role").Slice()
	if err != nil || len(answer) == 0 {
		return ""
	}
	name, _ := answer[0].(string)
	return name
}

// pair returns a primary with its replica.
func (c *clusterUnderLoad) pair(t *testing.T) (primary, replica *servers.Server) {
	t.Helper()
	nodes := c.Nodes
	for i, node := range nodes[:len(nodes)/2] {
		other := nodes[i+len(nodes)/2]
		switch roleOf(t, node) + " " + roleOf(t, other) {
		case "master slave":
			return node, other
		case "slave master":
			return other, node
		}
	}
	t.Fatal("no primary has its replica")
	return nil, nil
}

// keysAt are the keys of a siege that live on a node, and the others.
func (run *siege) keysAt(t *testing.T, addr string) (there, elsewhere []int) {
	t.Helper()
	rdb := run.place.dial(t).(*redis.ClusterClient)
	for key := range siegeKeys {
		node, err := rdb.MasterForKey(t.Context(), "{"+keyName(key)+"}")
		if err != nil {
			t.Fatal(err)
		}
		if node.Options().Addr == addr {
			there = append(there, key)
		} else {
			elsewhere = append(elsewhere, key)
		}
	}
	if len(there) == 0 {
		t.Fatalf("no key lives at %s", addr)
	}
	return there, elsewhere
}

// becomes waits until a node has a role, and tells when.
func becomes(t *testing.T, node *servers.Server, want string) time.Time {
	t.Helper()
	eventually.True(t, 30*time.Second, node.Addr+" becomes a "+want, func() bool { return roleOf(t, node) == want })
	return time.Now()
}

// inStep waits until a replica has what its primary has.
func inStep(t *testing.T, replica *servers.Server) {
	t.Helper()
	rdb := dial(t, replica.Addr)
	eventually.True(t, 30*time.Second, replica.Addr+" is in step", func() bool {
		info, err := rdb.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "master_link_status:up")
	})
}

// kill: the primary is gone, and its replica elected.
func (c *clusterUnderLoad) kill(t *testing.T) {
	c.lose(t, (*servers.Server).Kill, func(*servers.Server) {})
}

// isolate: the primary lives on, and nobody reaches it. When it is back it learns that it is a replica now.
func (c *clusterUnderLoad) isolate(t *testing.T) {
	c.lose(t, (*servers.Server).Isolate, func(primary *servers.Server) {
		primary.Rejoin()
		becomes(t, primary, "slave")
		inStep(t, primary)
	})
}

// lose takes a primary away. After Redis has decided again, it may come back.
func (c *clusterUnderLoad) lose(t *testing.T, goes, comes func(primary *servers.Server)) {
	primary, replica := c.pair(t)
	run := laySiege(t, c.place())
	keys, others := run.keysAt(t, primary.Addr)
	lost := time.Now()
	goes(primary)
	promoted := becomes(t, replica, "master")
	run.awaitRedis(t, promoted)
	comes(primary)
	o := run.lift(t)
	o.failover(t, lost, promoted, keys)
	o.wantKept(t, others)
}

// handOver: the replica asks for the office, and the primary waits until it has everything. Nothing is lost.
func (c *clusterUnderLoad) handOver(t *testing.T) {
	primary, replica := c.pair(t)
	run := laySiege(t, c.place())
	keys, _ := run.keysAt(t, primary.Addr)
	asked := time.Now()
	if err := dial(t, replica.Addr).Do(t.Context(), "cluster", "failover").Err(); err != nil {
		t.Fatal(err)
	}
	promoted := becomes(t, replica, "master")
	run.awaitRedis(t, promoted)
	o := run.lift(t)
	o.failover(t, asked, promoted, keys)
	o.wantNothingLost(t)
	becomes(t, primary, "slave")
	inStep(t, primary)
}

// moveSlots: the slots of all keys of a node move to another one and back, as a rebalancing does it, under load. The
// script is flushed at the target, as if it had never been there. Nothing is lost, and nothing charged twice.
func (c *clusterUnderLoad) moveSlots(t *testing.T) {
	from, _ := c.pair(t)
	to := c.otherPrimary(t, from)
	run := laySiege(t, c.place())
	keys, _ := run.keysAt(t, from.Addr)
	source, target := dial(t, from.Addr), dial(t, to.Addr)
	for _, node := range []*redis.Client{source, target} {
		if err := node.ConfigResetStat(t.Context()).Err(); err != nil {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	for range 2 {
		for _, key := range keys {
			run.moveSlot(t, source, target, key)
		}
		source, target = target, source
	}
	moved := time.Now()
	run.awaitRedis(t, moved)
	wantAnswers(t, []*redis.Client{source, target}, "MOVED", "ASK", "TRYAGAIN", "NOSCRIPT")
	o := run.lift(t)
	o.wantNothingLost(t)
	failed := o.undecidedBetween(begun, moved, keys)
	t.Logf("%d slots were moved there and back in %v; Redis decided %d calls meanwhile, and %d not",
		len(keys), moved.Sub(begun).Round(time.Millisecond), o.admittedBetween(begun, moved, keys), failed)
	if decided := o.admittedBetween(begun, moved, keys); decided == 0 {
		t.Error("Redis decided no call while slots moved")
	}
	o.wantResumed(t, moved, keys)
}

// wantAnswers fails the test if servers did not answer in all of these ways, which no caller has heard of.
func wantAnswers(t *testing.T, nodes []*redis.Client, codes ...string) {
	t.Helper()
	stats := errorStats(t, nodes...)
	for _, code := range codes {
		if !strings.Contains(stats, "errorstat_"+code+":") {
			t.Errorf("no call was answered %s: the test shows less than it should", code)
		}
	}
	t.Logf("the servers answered %s", strings.Join(strings.Fields(stats), " "))
}

// errorStats tells how often servers have answered each error.
func errorStats(t *testing.T, nodes ...*redis.Client) string {
	t.Helper()
	var stats strings.Builder
	for _, node := range nodes {
		info, err := node.Info(t.Context(), "errorstats").Result()
		if err != nil {
			t.Fatal(err)
		}
		stats.WriteString(info)
	}
	return stats.String()
}

func (c *clusterUnderLoad) otherPrimary(t *testing.T, than *servers.Server) *servers.Server {
	t.Helper()
	i := slices.IndexFunc(c.Nodes, func(s *servers.Server) bool {
		return s != than && roleOf(t, s) == "master"
	})
	if i < 0 {
		t.Fatal("no other primary")
	}
	return c.Nodes[i]
}

// moveSlot moves a key's slot with all that is in it, key by key, so that for a while a limiter's keys are at different
// nodes.
func (run *siege) moveSlot(t *testing.T, source, target *redis.Client, key int) {
	t.Helper()
	ctx := t.Context()
	must := func(cmd *redis.Cmd) any {
		t.Helper()
		if err := cmd.Err(); err != nil {
			t.Fatalf("%v: %v", cmd.Args(), err)
		}
		return cmd.Val()
	}
	slot := must(source.Do(ctx, "cluster", "keyslot", "{"+keyName(key)+"}"))
	sourceID, targetID := must(source.Do(ctx, "cluster", "myid")), must(target.Do(ctx, "cluster", "myid"))
	must(target.Do(ctx, "script", "flush"))
	must(target.Do(ctx, "cluster", "setslot", slot, "importing", sourceID))
	must(source.Do(ctx, "cluster", "setslot", slot, "migrating", targetID))
	host, port, _ := strings.Cut(target.Options().Addr, ":")
	for {
		keys := must(source.Do(ctx, "cluster", "getkeysinslot", slot, 2)).([]any)
		if len(keys) == 0 {
			break
		}
		must(source.Do(ctx, "migrate", host, port, keys[0], 0, 5000))
		run.awaitCalls(t, 2)
		for range 30 { // with one key here and one there, until a call has met that once
			if len(keys) == 1 || strings.Contains(errorStats(t, source, target), "errorstat_TRYAGAIN:") {
				break
			}
			run.awaitCalls(t, 2)
		}
	}
	for _, node := range []*redis.Client{target, source} {
		must(node.Do(ctx, "cluster", "setslot", slot, "node", targetID))
	}
}

// awaitCalls lets the load go on for a few calls.
func (run *siege) awaitCalls(t *testing.T, calls int) {
	t.Helper()
	count := func() int {
		run.book.mu.Lock()
		defer run.book.mu.Unlock()
		return len(run.book.entries)
	}
	before := count()
	eventually.True(t, 10*time.Second, "the load goes on", func() bool { return count() >= before+calls })
}

// killAhead: what a failover loses is exactly what the replica had not got, here the charges made while it was cut off.
func (c *clusterUnderLoad) killAhead(t *testing.T) {
	const limit, replicated, unreplicated = 100, 30, 20
	primary, replica := c.pair(t)
	rdb := c.place().dial(t).(*redis.ClusterClient)
	l := newLimiter(t, rdb, everyAlgorithm(t, limit)...)
	key := keyAt(t, rdb, primary.Addr)
	charge := func(n int) {
		for range n {
			allow(t, l, key, 1, true)
		}
	}
	charge(replicated)
	node := dial(t, primary.Addr)
	eventually.True(t, 10*time.Second, "the replica has all charges", func() bool {
		info, err := node.Info(t.Context(), "replication").Result()
		return err == nil && strings.Contains(info, "offset="+field(info, "master_repl_offset")+",")
	})
	replica.Isolate()
	charge(unreplicated)
	primary.Kill()
	replica.Rejoin()
	becomes(t, replica, "master")

	admitted, refused := replicated+unreplicated, false
	for !refused {
		r, err := l.Allow(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		if refused = !r.Allowed; !refused {
			admitted++
		}
	}
	t.Logf("admitted %d of %d: %d charges were not replicated", admitted, limit, unreplicated)
	if admitted != limit+unreplicated {
		t.Errorf("admitted %d, want the limit of %d and the %d that were not replicated", admitted, limit, unreplicated)
	}
	wantExpiry(t, dial(t, replica.Addr), l.Name())
}

// keyAt finds a key that lives on a node.
func keyAt(t *testing.T, rdb *redis.ClusterClient, addr string) string {
	t.Helper()
	for i := range 100 {
		node, err := rdb.MasterForKey(t.Context(), "{"+keyName(i)+"}")
		if err != nil {
			t.Fatal(err)
		}
		if node.Options().Addr == addr {
			return keyName(i)
		}
	}
	t.Fatalf("no key lives at %s", addr)
	return ""
}

// field reads a line of INFO.
func field(info, name string) string {
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
