package redislimiter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redislimiter/go-redislimiter/internal/keys"
	"github.com/redislimiter/go-redislimiter/scripts"
)

// checkTimeout bounds a Check whose context has no deadline.
const checkTimeout = 5 * time.Second

// Check tries at start-up what decisions will need: it loads the script on
// every primary, so that the first requests do not have to, and makes and
// deletes charges on each, under a key that no caller can name.
//
// It names each node at which something does not work, and what: a node that
// cannot be reached, or is a read-only replica; a server that is too old;
// every command that the ACL lacks, those included that only rare decisions
// need. The error is by errors.Is an ErrMisconfigured if that will not mend
// itself. Check waits until ctx is done, or for 5 seconds if ctx has no
// deadline.
func (l *Limiter) Check(ctx context.Context) error {
	if _, ok := ctx.Deadline(); !ok {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, checkTimeout)
		defer cancel()
	}
	c := &check{l: l, silent: map[string]bool{}}
	done := make(chan error, 1) // go-redis may not return when ctx is done
	go func() { done <- c.run(ctx) }()
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return c.interrupted(ctx)
	}
}

// A check is one run of Check.
type check struct {
	l *Limiter

	mu     sync.Mutex
	silent map[string]bool // addresses that have not answered yet
	nodes  int
	errs   []error
}

func (c *check) run(ctx context.Context) error {
	visit := func(ctx context.Context, node *redis.Client) error {
		c.node(ctx, node, node.Options().Addr)
		return nil // or the other nodes would not be visited
	}
	nodeOf := func(string) (*redis.Client, error) { return nil, nil }
	var err error
	switch rdb := c.l.rdb.(type) {
	case cluster:
		err = rdb.ForEachMaster(ctx, visit)
		nodeOf = func(key string) (*redis.Client, error) { return rdb.MasterForKey(ctx, key) }
	case ring:
		c.downShards(rdb)
		err = rdb.ForEachShard(ctx, visit)
		nodeOf = rdb.GetShardClientForKey
	default:
		c.node(ctx, rdb, addrOf(rdb))
	}
	if err != nil {
		return c.l.checkError(err)
	}
	if err := errors.Join(c.errs...); err != nil {
		return err
	}
	return c.l.probe(ctx, c.nodes, nodeOf)
}

// addrOf is the address of a single server, as far as the client tells.
func addrOf(rdb Client) string {
	if c, ok := rdb.(interface{ Options() *redis.Options }); ok && strings.Contains(c.Options().Addr, ":") {
		return c.Options().Addr
	}
	return "the server"
}

// downShards reports the shards that a Ring has given up and does not visit.
func (c *check) downShards(rdb ring) {
	r, ok := rdb.(interface {
		Options() *redis.RingOptions
		GetShardClients() []*redis.Client
	})
	if !ok {
		return
	}
	up := map[string]bool{}
	for _, node := range r.GetShardClients() {
		up[node.Options().Addr] = true
	}
	for name, addr := range r.Options().Addrs {
		if !up[addr] {
			c.add(&unavailable{name: c.l.name, cause: &nodeError{addr, fmt.Errorf("shard %s does not answer", name)}})
		}
	}
}

// node checks one node.
func (c *check) node(ctx context.Context, node Client, addr string) {
	c.mu.Lock()
	c.nodes++
	c.silent[addr] = true
	c.mu.Unlock()
	err := c.introduce(ctx, node)
	if err == nil {
		err = c.prepare(ctx, node)
	}
	if err != nil {
		c.add(c.l.checkError(&nodeError{addr, err}))
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.silent, addr)
}

func (c *check) add(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.errs = append(c.errs, err)
}

// interrupted tells at the end of the time what there was to tell until then.
func (c *check) interrupted(ctx context.Context) error {
	if err := ctx.Err(); err == context.Canceled {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	errs := slices.Clone(c.errs)
	for addr := range c.silent {
		errs = append(errs, &unavailable{name: c.l.name, cause: &nodeError{addr, errTimeout}})
	}
	if len(errs) == 0 {
		return c.l.gone(ctx, false)
	}
	return errors.Join(errs...)
}

// A setupError is what a server answers, in our words: no waiting will help.
type setupError struct{ text string }

func (e *setupError) Error() string { return e.text }

// oldest is the first Redis that is supported. Older ones hide the code of an
// error behind the text of the script that met it, so that an outage and a
// mistake look the same, and cannot tell a script what the ACL allows.
const oldest = 7

// introduce asks the server for its version and its role, which the ACL cannot
// forbid. Other servers than Redis count their versions otherwise.
func (c *check) introduce(ctx context.Context, node Client) error {
	cmd := redis.NewMapStringInterfaceCmd(ctx, "hello")
	err := node.Process(ctx, cmd)
	if err != nil && strings.Contains(err.Error(), "unknown command") {
		return &setupError{"the server knows no HELLO, so it is older than Redis 6; Redis 7.0 is the oldest that is supported"}
	}
	if err != nil && strings.HasPrefix(err.Error(), "ERR ") {
		return nil // it takes HELLO to be something else, so it is not one of those that we know
	}
	if err != nil {
		return err
	}
	hello := cmd.Val()
	version := fmt.Sprint(hello["version"])
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err == nil && n < oldest && hello["server"] == "redis" {
		return &setupError{"Redis " + version + " is too old: 7.0 is the oldest that is supported, " +
			"the first whose scripts report errors with their codes and know the ACL"}
	}
	if role := hello["role"]; role == "replica" || role == "slave" {
		return &setupError{"this is a read-only replica: limits need the primary"}
	}
	return nil
}

// prepare puts the scripts into a node's cache, and asks what the ACL lacks.
func (c *check) prepare(ctx context.Context, node Client) error {
	var lacks []string
	for _, script := range []*scripts.Script{c.l.script, c.l.script.Refund, scripts.Reset, scripts.Permissions} {
		cmd := redis.NewStringCmd(ctx, "script", "load", script.Text)
		err := node.Process(ctx, cmd)
		if forbidden(err) {
			lacks = append(lacks, "SCRIPT|LOAD")
			break
		}
		if err != nil {
			return fmt.Errorf("SCRIPT LOAD: %w", err)
		}
		if cmd.Val() != script.SHA {
			return fmt.Errorf("SCRIPT LOAD: digest %q, want %q", cmd.Val(), script.SHA)
		}
	}
	more, err := c.lacking(ctx, node)
	if err != nil {
		return err
	}
	if lacks = append(lacks, more...); len(lacks) == 0 {
		return nil
	}
	return &setupError{c.acl(lacks)}
}

// acl says what has to be added to the ACL. That no command may be used that
// takes a key rather means that the user may not use our keys.
func (c *check) acl(lacks []string) string {
	needed := "+" + strings.ToLower(strings.Join(lacks, " +"))
	keyless := []string{"TIME", "PING"}
	if !slices.ContainsFunc(c.l.script.Commands(), func(command string) bool {
		return !slices.Contains(keyless, command) && !slices.Contains(lacks, command)
	}) {
		return fmt.Sprintf("the ACL does not allow the keys %s%s:* (needed: ~%s*), or not with any of %s (needed: %s)",
			keys.Prefix, c.l.name, keys.Prefix, strings.Join(lacks, ", "), needed)
	}
	return fmt.Sprintf("the ACL does not allow %s (needed: %s)", strings.Join(lacks, ", "), needed)
}

// lacking asks both ways in which scripts are run what else the ACL lacks.
func (c *check) lacking(ctx context.Context, node Client) (lacks []string, err error) {
	commands := c.l.script.Commands()
	if _, ok := c.l.rdb.(ring); ok {
		commands = append(commands, "PING") // by which a Ring tells whether a shard lives
	}
	args := []any{"", "", 0, c.l.prefixes[0] + probeID + "}"}
	for _, command := range commands {
		args = append(args, command)
	}
	for _, way := range []struct{ name, script string }{
		{"EVAL", scripts.Permissions.Text}, {"EVALSHA", scripts.Permissions.SHA},
	} {
		args[0], args[1] = way.name, way.script
		cmd := redis.NewIntSliceCmd(ctx, slices.Clone(args)...)
		switch err := node.Process(ctx, cmd); {
		case forbidden(err):
			lacks = append(lacks, way.name)
		case err != nil && !replied(err):
			return nil, err
		}
		for i, no := range cmd.Val() {
			if no == 1 && !slices.Contains(lacks, commands[i]) {
				lacks = append(lacks, commands[i])
			}
		}
	}
	return lacks, nil
}

// forbidden reports whether the ACL does not allow a command.
func forbidden(err error) bool { return err != nil && redis.HasErrorPrefix(err, "NOPERM") }

// probeID begins the ids of probes: no escaped id begins like that.
const probeID = "%c"

// probe makes a charge on each of the nodes, by trying ids until every node
// had one. 1,000 ids miss none of a hundred nodes.
func (l *Limiter) probe(ctx context.Context, nodes int, nodeOf func(key string) (*redis.Client, error)) error {
	deadline, _ := ctx.Deadline() // a start may take longer than a decision
	seen := map[*redis.Client]bool{}
	for i := 0; i < 1000 && len(seen) < nodes; i++ {
		id := probeID + strconv.Itoa(i)
		node, err := nodeOf(l.prefixes[0] + id + "}")
		if err != nil {
			return l.checkError(err)
		}
		if seen[node] {
			continue
		}
		seen[node] = true
		addr := addrOf(l.rdb)
		if node != nil {
			addr = node.Options().Addr
		}
		if err := l.try(ctx, deadline, id); err != nil {
			return probeError(addr, err)
		}
	}
	return nil
}

// try makes and deletes a charge.
func (l *Limiter) try(ctx context.Context, deadline time.Time, id string) error {
	for range 2 { // the second charge needs commands that the first does not
		if _, err := l.alone(ctx, deadline, l.script, id, 1, 1); err != nil {
			return err
		}
	}
	_, err := l.alone(ctx, deadline, scripts.Reset, id)
	return err
}

// probeError names the node.
func probeError(addr string, err error) error {
	var u *unavailable
	if !errors.As(err, &u) {
		return err
	}
	named := *u
	named.cause = &nodeError{addr, u.cause}
	return &named
}

func (l *Limiter) checkError(err error) error {
	if errors.Is(err, context.Canceled) {
		return err
	}
	var setup *setupError
	if errors.As(err, &setup) {
		return &unavailable{name: l.name, cause: err, misconfigured: true}
	}
	return classify(l.name, err, false)
}
