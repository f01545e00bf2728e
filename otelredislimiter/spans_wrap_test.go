package otelredislimiter_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redislimiter/go-redislimiter/otelredislimiter"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

type away struct{ *redislimiter.Memory }

func (away) AllowN(context.Context, string, int) (redislimiter.Result, error) {
	return redislimiter.Result{}, redislimiter.ErrUnavailable
}

// What is around Spans still learns what the limiter is called and enforces.
func TestSpansHideNoName(t *testing.T) {
	memory, err := redislimiter.NewMemory("api", redislimiter.FixedWindow(5, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	f := &redislimiter.Fallback{Primary: otelredislimiter.Spans(away{memory}, noop.NewTracerProvider()), Secondary: redislimiter.Open,
		Logger: slog.New(slog.DiscardHandler)}
	if r, err := f.AllowN(t.Context(), "k", 1); err != nil || r.Name != "api" || len(r.Limits) != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := f.AllowN(t.Context(), "k", 100); !errors.Is(err, redislimiter.ErrNeverAllowed) {
		t.Error(err)
	}
}
