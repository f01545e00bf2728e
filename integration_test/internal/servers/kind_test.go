package servers

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/moby/moby/client"
)

// localImages is an engine that has these images.
type localImages struct {
	client.ImageAPIClient
	names []string
}

func (l localImages) ImageInspect(_ context.Context, name string, _ ...client.ImageInspectOption) (client.ImageInspectResult, error) {
	if !slices.Contains(l.names, name) {
		return client.ImageInspectResult{}, errors.New("no such image")
	}
	return client.ImageInspectResult{}, nil
}

func TestImageIsTheOverrideElseTheLocalElseThePublicOne(t *testing.T) {
	none := localImages{}
	built := localImages{names: []string{"redislimiter-test/redis:7.0", "redislimiter-test/valkey:8.1"}}
	for _, c := range []struct {
		kind   Kind
		engine localImages
		want   string
	}{
		{Redis70, none, "redis:7.0"},
		{Redis70, built, "redislimiter-test/redis:7.0"},
		{Redis80, built, "redis:8.0"},
		{Valkey81, none, "valkey/valkey:8.1"},
		{Valkey81, built, "redislimiter-test/valkey:8.1"},
	} {
		t.Setenv(c.kind.variable(), "")
		if got := c.kind.image(t.Context(), c.engine); got != c.want {
			t.Errorf("%s with %q: %s, want %s", c.kind, c.engine.names, got, c.want)
		}
	}
	t.Setenv("REDISLIMITER_TEST_IMAGE_VALKEY_8_1", "mirror.example/valkey:8.1.4")
	if got := Valkey81.image(t.Context(), built); got != "mirror.example/valkey:8.1.4" {
		t.Errorf("overridden: %s", got)
	}
}
