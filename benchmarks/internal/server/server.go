// Package server starts the Redis that is measured and reads its counters.
package server

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os/exec"
	"strings"
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
	container string
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
	image := publicImage
	if exec.CommandContext(ctx, "docker", "image", "inspect", localImage).Run() == nil {
		image = localImage
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	addr := listener.Addr().String()
	listener.Close()
	_, port, _ := net.SplitHostPort(addr)
	container, err := docker(ctx, "run", "-d", "--rm", "--label", "redislimiter-benchmarks", "--network", "host", image,
		"redis-server", "--save", "", "--bind", "127.0.0.1", "--port", port)
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", image, err)
	}
	s := &Server{Addr: addr, Client: redis.NewClient(&redis.Options{Addr: addr}), container: container}
	if err := s.await(ctx); err != nil {
		s.Stop()
		return nil, err
	}
	return s, nil
}

func (s *Server) await(ctx context.Context) (err error) {
	for range 100 {
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
	if s.container != "" {
		// Not the context of the run, which may be what has ended.
		_, _ = docker(context.Background(), "rm", "-f", s.container)
	}
}

func docker(ctx context.Context, args ...string) (string, error) {
	out, err := exec.CommandContext(ctx, "docker", args...).Output()
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	return strings.TrimSpace(string(out)), err
}
