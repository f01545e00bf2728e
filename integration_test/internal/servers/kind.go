package servers

import (
	"context"
	"os"
	"strings"

	"github.com/moby/moby/client"
)

// Kind is a server program and its version: what the tests run against.
type Kind string

// The oldest Redis that is still in wide use, whose TIME moves inside a script; a recent one; and the fork.
const (
	Redis70  Kind = "redis:7.0"
	Redis80  Kind = "redis:8.0"
	Valkey81 Kind = "valkey:8.1"
)

// Kinds returns every kind, for tests that must hold on each.
func Kinds() []Kind {
	return []Kind{Redis70, Redis80, Valkey81}
}

// localPrefix is what images/build.sh names its images with.
const localPrefix = "redislimiter-test/"

// public returns the image in the public registry. The version is a prefix: the registry has its newest patch.
func (k Kind) public() string {
	if k == Valkey81 {
		return "valkey/" + string(k)
	}
	return string(k)
}

// program returns the name of the server program.
func (k Kind) program() string {
	name, _, _ := strings.Cut(string(k), ":")
	return name + "-server"
}

// client returns the name of the program that talks to the server.
func (k Kind) client() string {
	name, _, _ := strings.Cut(string(k), ":")
	return name + "-cli"
}

// variable returns the environment variable that overrides the image: REDISLIMITER_TEST_IMAGE_REDIS_7_0.
func (k Kind) variable() string {
	return "REDISLIMITER_TEST_IMAGE_" + strings.NewReplacer(":", "_", ".", "_").Replace(strings.ToUpper(string(k)))
}

// image chooses: what the environment says, else an image that was built on this machine, else the public one, which
// is pulled. Building means that there was no registry, so a local image is never worse than trying to pull.
func (k Kind) image(ctx context.Context, docker client.ImageAPIClient) string {
	if image := os.Getenv(k.variable()); image != "" {
		return image
	}
	if _, err := docker.ImageInspect(ctx, localPrefix+string(k)); err == nil {
		return localPrefix + string(k)
	}
	return k.public()
}
