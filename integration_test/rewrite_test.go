package integration_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"sync"

	"github.com/redis/go-redis/v9"

	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A rewritten client runs the library's scripts with something in front of their text that changes what redis.call
// does.
type rewritten struct {
	rl.Client
	front string

	mu    sync.Mutex
	texts map[string]string // by digest
	ran   int
}

func rewrite(rdb rl.Client, front string) *rewritten {
	return &rewritten{Client: rdb, front: front, texts: map[string]string{}}
}

// scripts returns how many it has run.
func (w *rewritten) scripts() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.ran
}

// run sends what a limiter sends, with more arguments at the end. As a server does, it does not know a script before it
// was sent once.
func (w *rewritten) run(args []any, more ...any) ([]int64, error) {
	text, err := w.text(fmt.Sprint(args[0]), fmt.Sprint(flat(args[1])))
	if err != nil {
		return nil, err
	}
	sent := []any{"eval", w.front + text}
	for _, arg := range args[2:] {
		sent = append(sent, flat(arg))
	}
	cmd := redis.NewIntSliceCmd(context.Background(), append(sent, more...)...)
	cmd.SetFirstKeyPos(3)
	err = w.Client.Process(context.Background(), cmd)
	return cmd.Val(), err
}

// text finds a script's text.
func (w *rewritten) text(command, script string) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.ran++
	if command == "eval" {
		sum := sha1.Sum([]byte(script))
		w.texts[hex.EncodeToString(sum[:])] = script
		return script, nil
	}
	text, known := w.texts[script]
	if !known {
		return "", noScript{}
	}
	return text, nil
}

// flat follows the pointers that a limiter passes to spare allocations.
func flat(arg any) any {
	switch v := arg.(type) {
	case *string:
		return *v
	case *int64:
		return *v
	}
	return arg
}

// noScript is the server's answer to an unknown digest.
type noScript struct{}

func (noScript) Error() string { return "NOSCRIPT No matching script. Please use EVAL." }
func (noScript) RedisError()   {}
