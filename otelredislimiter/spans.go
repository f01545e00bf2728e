package otelredislimiter

import (
	"context"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/trace"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// Spans makes each decision of l a span "redislimiter.decision", with the attributes
// of the metrics and redislimiter.units, the units asked for. Its status is an
// error if there was no decision, but not if the caller gave up or asked for what
// can never be allowed. A nil provider is the global one.
//
// A span costs more than most decisions: use it where traces are sampled, and not
// for every limiter. What go-redis does inside is traced by its own package,
// redisotel.
func Spans(l redislimiter.Allower, provider trace.TracerProvider) redislimiter.Allower {
	if provider == nil {
		provider = otel.GetTracerProvider()
	}
	s := &spans{l, provider.Tracer(scope)}
	if d, ok := l.(described); ok {
		return &describedSpans{s, d}
	}
	return s
}

type spans struct {
	inner  redislimiter.Allower
	tracer trace.Tracer
}

// described is what a Fallback and metrics want to know of a limiter.
type described interface {
	Name() string
	Limits() []redislimiter.Limit
}

type describedSpans struct {
	*spans
	described
}

// AllowN is a span.
func (s *spans) AllowN(ctx context.Context, key string, n int) (redislimiter.Result, error) {
	ctx, span := s.tracer.Start(ctx, "redislimiter.decision")
	defer span.End()
	r, err := s.inner.AllowN(ctx, key, n)
	if !span.IsRecording() {
		return r, err
	}
	of := labelsOf(r, err)
	span.SetAttributes(append(of.attributes(), attribute.Int("redislimiter.units", n))...)
	switch of.failure {
	case "", "never_allowed", "canceled", "deadline_exceeded":
	default:
		span.SetStatus(codes.Error, err.Error()) // errors hold no keys
	}
	return r, err
}
