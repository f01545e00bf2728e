package processes_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/processes"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
)

func TestMain(m *testing.M) {
	processes.Serve()
	os.Exit(servers.Main(m))
}

type increments struct {
	Addr, Key string
	Times     int
}

type incremented struct {
	PID    int
	Values []int64
	Peers  int64 // how many processes had come before begin, seen after it
}

var increment = processes.Register("increment",
	func(ctx context.Context, in increments, begin func()) (out incremented, err error) {
		fmt.Println("what a worker prints does no harm")
		rdb := redis.NewClient(&redis.Options{Addr: in.Addr})
		defer rdb.Close()
		if err := rdb.Incr(ctx, in.Key+"/peers").Err(); err != nil {
			return out, err
		}
		begin()
		out.PID = os.Getpid()
		if out.Peers, err = rdb.Get(ctx, in.Key+"/peers").Int64(); err != nil {
			return out, err
		}
		for range in.Times {
			n, err := rdb.Incr(ctx, in.Key).Result()
			if err != nil {
				return out, err
			}
			out.Values = append(out.Values, n)
		}
		return out, nil
	})

func TestFourProcessesShareOneKey(t *testing.T) {
	const count, times = 4, 200
	in := increments{Addr: servers.Shared(t, servers.Redis80), Key: servers.Key(t), Times: times}
	outputs := increment.Run(t, time.Minute, slices.Repeat([]increments{in}, count)...)

	pids := map[int]bool{os.Getpid(): true}
	var values []int64
	for _, out := range outputs {
		pids[out.PID] = true
		values = append(values, out.Values...)
		if out.Peers != count {
			t.Errorf("begin returned when %d of %d processes had called it", out.Peers, count)
		}
	}
	if len(pids) != count+1 {
		t.Errorf("%d processes with the test's own, want %d", len(pids), count+1)
	}
	slices.Sort(values)
	for i, n := range values {
		if n != int64(i+1) {
			t.Fatalf("value %d is %d: an increment was lost or seen twice", i, n)
		}
	}
	if len(values) != count*times {
		t.Errorf("%d increments, want %d", len(values), count*times)
	}
}

// misbehave does what its input says, instead of returning a result.
var misbehave = processes.Register("misbehave", func(ctx context.Context, how string, begin func()) (string, error) {
	if how == "forget to begin" {
		return how, nil
	}
	if how == "die before begin" {
		fmt.Fprintln(os.Stderr, "famous last words")
		os.Exit(3)
	}
	begin()
	switch how {
	case "fail":
		return "", errors.New("it did not work")
	case "panic":
		panic("famous last words")
	case "exit":
		os.Exit(0)
	case "until stopped":
		<-processes.Stopped()
	case "wait":
		<-ctx.Done()
		return "", fmt.Errorf("still waiting: %w", ctx.Err())
	case "hang":
		select {}
	}
	return how, nil
})

func TestEachWayToFailIsTold(t *testing.T) {
	for how, want := range map[string]string{
		"fail":            `worker "misbehave", process 1: it did not work`,
		"panic":           "famous last words",
		"exit":            "ended without a result",
		"forget to begin": "without calling begin",
	} {
		t.Run(how, func(t *testing.T) {
			if how == "forget to begin" { // it ends before the others may begin
				message := fatal(t, func(tb testing.TB) { misbehave.Start(tb, time.Minute, how) })
				if !strings.Contains(message, want) {
					t.Errorf("failed with %q, want %q", message, want)
				}
				return
			}
			outputs, errs := misbehave.Start(t, time.Minute, "behave", how).Wait()
			if outputs[0] != "behave" || errs[0] != nil {
				t.Errorf("the other process: %q, %v", outputs[0], errs[0])
			}
			if errs[1] == nil || !strings.Contains(errs[1].Error(), want) {
				t.Errorf("error %v, want %q", errs[1], want)
			}
		})
	}
}

func TestDeathBeforeBeginDoesNotKeepTheOthersWaiting(t *testing.T) {
	message := fatal(t, func(tb testing.TB) { misbehave.Start(tb, time.Minute, "behave", "die before begin") })
	for _, want := range []string{"process 1 died: exit status 3", "famous last words"} {
		if !strings.Contains(message, want) {
			t.Errorf("failed with %q, want %q", message, want)
		}
	}
}

func TestDeadline(t *testing.T) {
	_, errs := misbehave.Start(t, 2*time.Second, "wait", "hang").Wait()
	if errs[0] == nil || !strings.Contains(errs[0].Error(), "still waiting") {
		t.Errorf("the worker that looks at its context: %v", errs[0])
	}
	if !errors.Is(errs[1], context.DeadlineExceeded) {
		t.Errorf("the worker that does not: %v", errs[1])
	}
}

func TestStopEndsTheProcessesThatWaitForIt(t *testing.T) {
	g := misbehave.Start(t, time.Minute, "until stopped", "until stopped")
	g.Stop()
	if outputs, errs := g.Wait(); errors.Join(errs...) != nil || outputs[0] != "until stopped" {
		t.Errorf("%q, %v", outputs, errs)
	}
}

func TestKillLeavesTheOthersAlone(t *testing.T) {
	g := misbehave.Start(t, time.Minute, "hang", "behave")
	g.Kill(0)
	outputs, errs := g.Wait()
	if errs[0] == nil || !strings.Contains(errs[0].Error(), "killed") {
		t.Errorf("the killed process: %v", errs[0])
	}
	if outputs[1] != "behave" || errs[1] != nil {
		t.Errorf("the other: %q, %v", outputs[1], errs[1])
	}
}

// recorder is a test that may fail. It embeds the interface to be one; what is not overridden is the real test's.
type recorder struct {
	testing.TB
	message string
}

type stop struct{}

func (r *recorder) Helper() {}

func (r *recorder) Fatal(args ...any) {
	r.message = fmt.Sprint(args...)
	panic(stop{})
}

func (r *recorder) Fatalf(format string, args ...any) {
	r.Fatal(fmt.Sprintf(format, args...))
}

// fatal returns the message with which f fails its test.
func fatal(t *testing.T, f func(testing.TB)) (message string) {
	t.Helper()
	r := &recorder{TB: t}
	defer func() {
		if recovered := recover(); recovered != nil && recovered != (stop{}) {
			panic(recovered)
		}
		message = r.message
	}()
	f(r)
	return r.message
}
