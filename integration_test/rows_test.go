package integration_test

import (
	"context"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/faults"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	"github.com/redislimiter/go-redislimiter/internal/limitertest"
)

// Rows of the network do not depend on the server, and run on one of them.
var rows = []row{
	{name: "reply lost", proxied: true, down: true, begin: network(faults.Fault{Kind: faults.LoseReply, Command: "evalsha"}), end: whole},
	{name: "reply delayed", proxied: true, down: true, begin: network(faults.Fault{Kind: faults.DelayReply, Command: "evalsha", Delay: 8 * crowdTimeout}), end: whole},
	{name: "connection refused", proxied: true, down: true, begin: network(faults.Fault{Kind: faults.Refuse}), end: whole},
	{name: "black hole", proxied: true, down: true, begin: network(faults.Fault{Kind: faults.BlackHole}), end: whole},
	{name: "pool exhausted", proxied: true, down: true, pool: 3, clients: 200, begin: network(faults.Fault{Kind: faults.Stall, Command: "evalsha"}), end: whole},

	{name: "server stalled", down: true, silent: true, begin: func(s *scene) { s.server.Pause() }, end: func(s *scene) { s.server.Unpause() }},
	{name: "CLIENT PAUSE", down: true, silent: true, begin: clientPause, end: func(*scene) {}},
	{name: "SCRIPT FLUSH in a loop", begin: flushScripts, end: func(s *scene) { s.loop.end() }},
	{name: "SIGKILL, nothing saved", down: true, silent: true, losses: 1, begin: kill, end: restart},
	{name: "SIGKILL, all saved", down: true, silent: true, args: []string{"--appendonly", "yes", "--appendfsync", "always"}, begin: kill, end: restart},
	{name: "FLUSHALL", losses: 1, begin: admin("flushall"), end: func(*scene) {}},
	{name: "memory full, noeviction", begin: fullMemory("noeviction"), end: admin("config", "set", "maxmemory", "0")},
	{name: "memory full, eviction", evicts: true, begin: fullMemory("allkeys-random"), end: admin("config", "set", "maxmemory", "0")},
	{name: "ACL command missing", login: true, down: true, begin: admin("acl", "setuser", aclUser, "-evalsha"), end: admin("acl", "setuser", aclUser, "+evalsha")},
	{name: "wrong password after a rotation", login: true, down: true, begin: rotate, end: admin("acl", "setuser", aclUser, ">"+aclPassword)},
	{name: "BUSY script", down: true, tries: 6, begin: busy, end: endBusy},
}

// Faults under load from several processes.
func TestFaultRows(t *testing.T) {
	policies, algorithms := []string{"local", "open", "closed"}, limitertest.Algorithms()
	for k, kind := range servers.Kinds() {
		t.Run(string(kind), func(t *testing.T) {
			server := servers.Start(t, kind)
			for i, r := range rows {
				if r.proxied && kind != servers.Redis80 {
					continue
				}
				t.Run(r.name, func(t *testing.T) {
					s := &scene{row: r, t: t, kind: kind, server: server}
					s.crowd = crowd{
						Name: newName(), PoolSize: r.pool, Clients: max(r.clients, crowdClients),
						Policy: policies[(i+k)%len(policies)], Algorithm: algorithms[(i+2*k)%len(algorithms)].Name,
					}
					s.set()
					s.play()
					s.judge()
				})
			}
		})
	}
}

// set prepares the server and the way to it.
func (s *scene) set() {
	s.t.Helper()
	if s.args != nil {
		s.server = servers.Start(s.t, s.kind, s.args...)
	}
	s.admin = dial(s.t, s.server.Addr)
	s.crowd.Addr = s.server.Addr
	if s.proxied {
		s.proxy = faults.Start(s.t, s.server.Addr)
		s.crowd.Addr = s.proxy.Addr()
	}
	if s.login {
		s.crowd.Username, s.crowd.Password = aclUser, aclPassword
		admin("acl", "setuser", aclUser, "reset", "on", ">"+aclPassword, "~rl:*", "+@all")(s)
	}
}

func network(f faults.Fault) func(*scene) { return func(s *scene) { s.proxy.Set(f) } }
func whole(s *scene)                      { s.proxy.Heal() }

// admin gives the server a command.
func admin(args ...any) func(*scene) {
	return func(s *scene) {
		s.t.Helper()
		if err := s.admin.Do(context.Background(), args...).Err(); err != nil {
			s.t.Errorf("%v: %v", args[0], err)
		}
	}
}

func kill(s *scene)    { s.server.Kill() }
func restart(s *scene) { s.server.Restart() }

// clientPause ends by itself: whoever would end it has to wait as well.
func clientPause(s *scene) {
	admin("client", "pause", (outage + 200*time.Millisecond).Milliseconds(), "all")(s)
}

func flushScripts(s *scene) {
	s.loop.start(func(ctx context.Context) {
		if err := s.admin.ScriptFlush(context.WithoutCancel(ctx)).Err(); err != nil {
			s.t.Errorf("flush: %v", err)
		}
	})
}

// fullMemory leaves no room. With an eviction policy some keys have to go all the time.
func fullMemory(policy string) func(*scene) {
	return func(s *scene) {
		s.t.Helper()
		admin("config", "set", "maxmemory-policy", policy)(s)
		room := "1"
		if s.evicts {
			room = s.info("memory", "used_memory")
		}
		admin("config", "set", "maxmemory", room)(s)
	}
}

// rotate changes the password before the processes know the new one, and ends the sessions of the old one.
func rotate(s *scene) {
	admin("acl", "setuser", aclUser, "resetpass", ">rotated")(s)
	admin("client", "kill", "user", aclUser)(s)
}

// busy keeps the server in a script, so that it answers BUSY.
func busy(s *scene) {
	admin("config", "set", "busy-reply-threshold", "10")(s)
	s.loop.start(func(ctx context.Context) {
		hang := redis.NewClient(&redis.Options{Addr: s.server.Addr, ReadTimeout: time.Minute, MaxRetries: -1})
		defer hang.Close()
		hang.Do(context.WithoutCancel(ctx), "eval", "while true do end", 0) // until it is killed
		<-ctx.Done()
	})
}

func endBusy(s *scene) {
	admin("script", "kill")(s)
	s.loop.end()
}

func (s *scene) evicted() int64 {
	s.t.Helper()
	n, err := strconv.ParseInt(s.info("stats", "evicted_keys"), 10, 64)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

// info reads one field of what a server says of itself.
func (s *scene) info(section, field string) string {
	s.t.Helper()
	info, err := s.admin.Info(context.Background(), section).Result()
	if err != nil {
		s.t.Fatal(err)
	}
	for line := range strings.Lines(info) {
		if value, ok := strings.CutPrefix(line, field+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	s.t.Fatalf("no %s in %q", field, info)
	return ""
}
