// Package server starts the Redis that is measured and reads its counters.
package server

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"time"

	"github.com/redis/go-redis/v9"
)

// The public image, and the one that integration_test/images/build.sh makes
// where no registry can be reached.
const (
	publicImage = "redis:8.0"
	localImage  = "redislimiter-test/redis:8.0"
)

// A Server is a Redis that nobody else uses.
type Server struct {
	Addr string
	*redis.Client
	end func() // of the container, if there is one
}

// Use takes a server that runs already. It has to be empty, since every
// measurement begins with FLUSHALL.
func Use(ctx context.Context, addr string) (*Server, error) {
	s := &Server{Addr: addr, Client: redis.NewClient(&redis.Options{Addr: addr})}
	keys, err := s.DBSize(ctx).Result()
	if err != nil {
		return nil, err
	}
	if keys > 0 {
		return nil, fmt.Errorf("%s holds %d keys: the benchmarks delete everything, give them an empty server", addr, keys)
	}
	return s, nil
}

// Start runs a Redis 8.0 in a container, with the network of the host where
// there is such a thing: a published port would go through a proxy process
// that takes more of the processor than a decision does.
func Start(ctx context.Context) (*Server, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().String()
	listener.Close()
	_, port, _ := net.SplitHostPort(addr)
	// The server ends when its input does, so that none is left behind when
	// this process is killed.
	cmd := exec.Command("docker", "run", "-i", "--rm", "--label", "redislimiter-benchmarks", "--network", "host", image(ctx), "sh", "-c",
		"redis-server --save '' --bind 127.0.0.1 --port "+port+" >/dev/null & cat; kill $!; wait")
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", image(ctx), err)
	}
	s := &Server{Addr: addr, Client: redis.NewClient(&redis.Options{Addr: addr}), end: func() {
		stdin.Close()
		_ = cmd.Wait()
	}}
	if err := s.await(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func image(ctx context.Context) string {
	if exec.CommandContext(ctx, "docker", "image", "inspect", localImage).Run() == nil {
		return localImage
	}
	return publicImage
}

func (s *Server) await(ctx context.Context) (err error) {
	for range 600 { // the image may have to be pulled first
		if err = s.Ping(ctx).Err(); err == nil {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return fmt.Errorf("no answer from the server at %s (on Docker Desktop use -redis): %w", s.Addr, err)
}

// Stop removes what Start has started.
func (s *Server) Stop() {
	s.Close()
	if s.end != nil {
		s.end()
	}
}
