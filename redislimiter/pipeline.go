package redislimiter

import (
	"slices"

	"github.com/redis/go-redis/v9"
)

// Where keys live on different nodes, or the server takes keys of one slot
// only, a trip has a command for each entry, and all go in one pipeline. What
// becomes of one concerns no other.

// split makes arguments of the entries, one command's for each.
func (t *trip) split() {
	l := t.limiter
	width := 3 + len(l.prefixes) + len(l.args) + 2
	t.keys, t.numbers = t.keys[:0], t.numbers[:0]
	for _, e := range t.entries {
		for _, prefix := range l.prefixes {
			t.keys = append(t.keys, prefix+e.id+"}")
		}
		t.numbers = append(t.numbers, e.cost, e.count)
	}
	t.args = slices.Grow(t.args[:0], width*len(t.entries))
	for i := range t.entries {
		begin := len(t.args)
		t.args = append(t.args, evalsha, &t.script.SHA, len(l.prefixes))
		for k := range l.prefixes {
			t.args = append(t.args, &t.keys[i*len(l.prefixes)+k])
		}
		t.args = append(t.args, l.args...)
		t.args = append(t.args, &t.numbers[2*i], &t.numbers[2*i+1])
		t.commands = append(t.commands, t.newCommand(t.args[begin:]))
	}
}

func (t *trip) newCommand(args []any) command {
	c := command{redis.NewIntSliceCmd(t, args...), t}
	c.SetFirstKeyPos(3)
	return c
}

// sendEach sends the commands once. Those that proved to have had no effect are
// asked about alone.
func (t *trip) sendEach() {
	pipe := t.limiter.pipeliner.Pipeline()
	for i := range t.commands {
		_ = pipe.Process(t, &t.commands[i])
	}
	t.state.CompareAndSwap(idle, given)
	if t.Err() != nil { // all have left, and the client may be closed
		for i := range t.commands {
			t.commands[i].SetErr(errTimeout)
		}
		return
	}
	t.server.door.unwritten.Add(1)
	_, _ = pipe.Exec(t) // each command has its own error
	t.returned()
	silent := false
	for i := range t.commands {
		if err := t.commands[i].Err(); err != nil && !replied(err) {
			t.doubt(err)
			silent = true
		}
	}
	if silent {
		t.limiter.lost()
	}
}

// judgeEach turns each command's outcome into what its callers get.
func (t *trip) judgeEach() {
	for i := range t.entries {
		e := &t.entries[i]
		switch err := t.commands[i].Err(); {
		case err == nil:
			e.err = e.decode(t.limiter, t.commands[i].Val(), 0)
		case noScript(err) || nothingRan(err) || t.unsent(err):
			e.again = true
		default:
			e.err = classify(t.limiter.name, err, t.state.Load() == written)
		}
	}
}
