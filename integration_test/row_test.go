package integration_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/redislimiter/go-redislimiter/integration_test/internal/eventually"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/faults"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/processes"
	"github.com/redislimiter/go-redislimiter/integration_test/internal/servers"
	rl "github.com/redislimiter/go-redislimiter/redislimiter"
)

// A row is a fault that hits several processes in the middle of their work. Whatever it is, the same is asked of it
// (see verdict): what was admitted and by whom, what each call was charged, how late callers got their answers and what
// they were told, how soon Redis decided again, and what was left behind.
type row struct {
	name       string
	begin, end func(*scene)

	down   bool // Redis decides nothing meanwhile
	silent bool // and answers nobody: its return is seen from outside
	losses int  // how often the server forgets everything
	evicts bool // and keys besides, which it counts

	tries   int      // scripts of a probe; 0 is one, and more if the server's answer asks for that
	proxied bool     // between the processes and the server is a proxy: the server does not matter
	login   bool     // the processes log in as a user of their own
	args    []string // of the server, which is one of its own then
	pool    int      // connections of a process; 0 is go-redis's default
	clients int      // of a process; 0 is crowdClients
}

const (
	crowdClients   = 8
	crowdProcesses = 4 // of which this one is the first
	outage         = 1200 * time.Millisecond
)

// A scene is where a row takes place.
type scene struct {
	row
	t      *testing.T
	kind   servers.Kind
	server *servers.Server
	proxy  *faults.Proxy // of rows that are proxied
	admin  *redis.Client // not through the proxy

	crowd          crowd
	here           *gathering                // the crowd of this process, which can be watched
	elsewhere      *processes.Group[account] // the others
	loop           loop
	accounts       []account
	before         int64     // keys that the server had evicted
	begun, ended   time.Time // the fault
	healed         time.Time // the server could be used again
	proceeds, over bool
}

// play lets the fault happen, and returns when all processes are done.
func (s *scene) play() {
	s.t.Helper()
	s.before = s.evicted()
	s.elsewhere = crowds.Start(s.t, time.Minute, s.others()...)
	var err error
	if s.here, err = s.crowd.prepare(); err != nil {
		s.t.Fatal(err)
	}
	s.here.start(s.t.Context())
	s.t.Cleanup(s.stop)
	s.await("Redis decides", func() bool { return s.here.since(time.Time{}, outcome.byRedis) > 10*crowdClients })

	s.proceeds = true
	s.begin(s)
	s.begun = time.Now()
	s.await("the fault has lasted", func() bool { return time.Since(s.begun) > outage })
	s.heal()
	s.await("Redis decides again", func() bool { return s.here.since(s.healed, outcome.byRedis) > 5*crowdClients })
	s.stop()
}

// heal ends the fault, and tells since when the server can be used.
func (s *scene) heal() {
	s.t.Helper()
	s.ended, s.proceeds = time.Now(), false
	var back <-chan time.Time
	if s.silent {
		back = answersAgain(s.t, s.server.Addr)
	}
	s.end(s)
	if s.healed = time.Now(); s.silent {
		s.healed = <-back
	}
}

// stop ends all crowds, once, and the fault if a test has failed in its middle.
func (s *scene) stop() {
	if s.over {
		return
	}
	s.over = true
	if s.proceeds {
		s.end(s)
	}
	s.elsewhere.Stop()
	accounts, errs := s.elsewhere.Wait()
	if err := errors.Join(errs...); err != nil {
		s.t.Error(err)
	}
	s.accounts = append([]account{s.here.end()}, accounts...)
}

// await waits long: whether it was soon enough is judged by what happened when.
func (s *scene) await(what string, condition func() bool) {
	s.t.Helper()
	eventually.True(s.t, 15*time.Second, what, condition)
}

func (s *scene) others() (others []crowd) {
	for process := 1; process < crowdProcesses; process++ {
		c := s.crowd
		c.Process = process
		others = append(others, c)
	}
	return others
}

// A loop does something again and again until it is ended.
type loop struct {
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func (l *loop) start(f func(ctx context.Context)) {
	ctx, cancel := context.WithCancel(context.Background())
	l.cancel = cancel
	l.running.Go(func() {
		for ctx.Err() == nil {
			f(ctx)
		}
	})
}

func (l *loop) end() {
	l.cancel()
	l.running.Wait()
}

// answersAgain tells the first instant at which a server that is down answers. It does not use go-redis, which has its
// own times.
func answersAgain(t *testing.T, addr string) <-chan time.Time {
	t.Helper()
	back := make(chan time.Time, 1)
	go func() {
		again := time.NewTicker(time.Millisecond)
		defer again.Stop()
		for !answers(addr) && t.Context().Err() == nil {
			<-again.C
		}
		back <- time.Now()
	}()
	return back
}

func answers(addr string) bool {
	const patience = 100 * time.Millisecond
	conn, err := net.DialTimeout("tcp", addr, patience)
	if err != nil {
		return false
	}
	defer conn.Close()
	if conn.SetDeadline(time.Now().Add(patience)) != nil {
		return false
	}
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		return false
	}
	answer, err := bufio.NewReader(conn).ReadString('\n')
	return err == nil && answer == "+PONG\r\n"
}

// direct is a limiter of the same keys that nothing stands in the way of.
func (s *scene) direct() *rl.Limiter {
	s.t.Helper()
	limit, err := s.crowd.limit()
	if err != nil {
		s.t.Fatal(err)
	}
	return named(s.t, s.admin, s.crowd.Name, limit)
}
