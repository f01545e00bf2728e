package otelredislimiter_test

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace/noop"

	"github.com/redislimiter/go-redislimiter/otelredislimiter"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

func TestSpans(t *testing.T) {
	for name, test := range map[string]struct {
		limiter redislimiter.Allower
		want    string
		status  codes.Code
	}{
		"allowed":       {memory(t, 5), "outcome=allowed,policy=api,redislimiter.units=1,source=memory", codes.Unset},
		"unavailable":   {down{redislimiter.ErrUnavailable}, "error.type=unavailable,outcome=error,policy=api,redislimiter.units=1,source=none", codes.Error},
		"canceled":      {down{context.Canceled}, "error.type=canceled,outcome=error,policy=api,redislimiter.units=1,source=none", codes.Unset},
		"too late":      {down{context.DeadlineExceeded}, "error.type=deadline_exceeded,outcome=error,policy=api,redislimiter.units=1,source=none", codes.Unset},
		"never allowed": {down{redislimiter.ErrNeverAllowed}, "error.type=never_allowed,outcome=error,policy=api,redislimiter.units=1,source=none", codes.Unset},
	} {
		exporter := tracetest.NewInMemoryExporter()
		provider := trace.NewTracerProvider(trace.WithSyncer(exporter))
		ask(t, otelredislimiter.Spans(test.limiter, provider), "secret")
		spans := exporter.GetSpans()
		if len(spans) != 1 || spans[0].Name != "redislimiter.decision" || spans[0].Status.Code != test.status {
			t.Errorf("%s: %+v", name, spans)
			continue
		}
		if got := text(attribute.NewSet(spans[0].Attributes...)); got != test.want || strings.Contains(spans[0].Status.Description, "secret") {
			t.Errorf("%s: %s, %s", name, got, spans[0].Status.Description)
		}
	}
}

// Spans change no decision, and what was charged can be given back through them.
func TestRefundThroughSpans(t *testing.T) {
	provider := trace.NewTracerProvider(trace.WithSampler(trace.NeverSample()))
	l := otelredislimiter.Spans(memory(t, 5), provider)
	r, err := l.AllowN(t.Context(), "k", 5)
	if err != nil || !r.Allowed {
		t.Fatalf("%+v, %v", r, err)
	}
	if err := r.Refund(t.Context(), 2); err != nil {
		t.Fatal(err)
	}
	if r, err := l.AllowN(t.Context(), "k", 3); err != nil || r.Allowed || r.Remaining != 2 {
		t.Fatalf("%+v, %v", r, err)
	}
}

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
