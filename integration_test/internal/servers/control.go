package servers

import (
	"context"
	"time"

	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// Stop asks the server to end, and waits until it has.
func (s *Server) Stop() {
	s.tb.Helper()
	timeout := 10 * time.Second
	s.do("stop", func(ctx context.Context, _ *testcontainers.DockerClient) error {
		return s.Container.Stop(ctx, &timeout)
	})
}

// Kill ends the server at once (SIGKILL): it saves nothing and says goodbye to nobody.
func (s *Server) Kill() {
	s.tb.Helper()
	s.do("kill", func(ctx context.Context, docker *testcontainers.DockerClient) error {
		_, err := docker.ContainerKill(ctx, s.Container.GetContainerID(), client.ContainerKillOptions{Signal: "KILL"})
		return err
	})
}

// Restart starts the server after Stop or Kill, on the same address, with the same arguments and files, and returns
// when it answers. It knows nothing of its former data and scripts, unless it was started with arguments to save.
func (s *Server) Restart() {
	s.tb.Helper()
	s.do("restart", func(ctx context.Context, _ *testcontainers.DockerClient) error {
		if err := s.Container.Start(ctx); err != nil {
			return err
		}
		return awaitReady(ctx, s.Addr)
	})
}

// Pause stalls the server: its process is frozen, connections stay open and new ones are accepted, but nothing is
// answered. What is sent meanwhile is run after Unpause.
func (s *Server) Pause() {
	s.tb.Helper()
	s.do("pause", func(ctx context.Context, docker *testcontainers.DockerClient) error {
		_, err := docker.ContainerPause(ctx, s.Container.GetContainerID(), client.ContainerPauseOptions{})
		s.paused = err == nil
		return err
	})
}

// Unpause ends Pause.
func (s *Server) Unpause() {
	s.tb.Helper()
	s.do("unpause", func(ctx context.Context, docker *testcontainers.DockerClient) error {
		_, err := docker.ContainerUnpause(ctx, s.Container.GetContainerID(), client.ContainerUnpauseOptions{})
		s.paused = s.paused && err != nil
		return err
	})
}

// do does not use the test's context, which has ended when a clean-up calls.
func (s *Server) do(what string, f func(context.Context, *testcontainers.DockerClient) error) {
	s.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	docker, err := engine()
	if err == nil {
		err = f(ctx, docker)
	}
	if err != nil {
		s.tb.Fatalf("%s %s at %s: %v", what, s.Kind, s.Addr, err)
	}
}
