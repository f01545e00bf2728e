package otelredislimiter_test

import (
	"os/exec"
	"strings"
	"testing"
)

// A user's binary gets the API of OpenTelemetry with this package; which SDK, and
// whether there is one, is the user's choice.
func TestNoSDKIsLinked(t *testing.T) {
	out, err := exec.Command("go", "list", "-deps", ".").CombinedOutput()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, out)
	}
	api := false
	for path := range strings.FieldsSeq(string(out)) {
		api = api || path == "go.opentelemetry.io/otel/metric"
		if strings.HasPrefix(path, "go.opentelemetry.io/otel/sdk") || path == "testing" {
			t.Errorf("linked into users' binaries: %s", path)
		}
	}
	if !api {
		t.Fatal("go list names nothing that is known")
	}
}
