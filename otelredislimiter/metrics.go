package otelredislimiter

import (
	"context"
	"errors"
	"sync"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

const scope = "github.com/redislimiter/go-redislimiter/otelredislimiter"

// durations are the boundaries of the histogram in seconds: in memory, a trip
// on a local network, and around the default timeout of 100 ms.
var durations = []float64{1e-5, 1e-4, 2.5e-4, 5e-4, 1e-3, 2.5e-3, 5e-3, 1e-2, 2.5e-2, 5e-2, 0.1, 0.25, 1}

// Metrics counts decisions. Make one with [New] and give its Observe method to
// [redislimiter.Observe]; one can observe all limiters of a process.
type Metrics struct {
	decisions metric.Int64Counter
	duration  metric.Float64Histogram
	failures  metric.Int64Counter
	resting   metric.Int64ObservableUpDownCounter
	meter     metric.Meter

	mu   sync.RWMutex
	sets map[labels]options
}

// labels are the values of the attributes.
type labels struct{ policy, outcome, source, failure string }

// options are labels, ready for the instruments.
type options struct {
	add    []metric.AddOption
	record []metric.RecordOption
}

// New makes the instruments. A nil provider is the global one.
func New(provider metric.MeterProvider) (*Metrics, error) {
	if provider == nil {
		provider = otel.GetMeterProvider()
	}
	m := &Metrics{meter: provider.Meter(scope), sets: map[labels]options{}}
	var errs [4]error
	m.decisions, errs[0] = m.meter.Int64Counter("redislimiter.decisions",
		metric.WithUnit("{request}"), metric.WithDescription("Decisions of rate limiters."))
	m.duration, errs[1] = m.meter.Float64Histogram("redislimiter.decision.duration",
		metric.WithUnit("s"), metric.WithDescription("Time that decisions of rate limiters took."),
		metric.WithExplicitBucketBoundaries(durations...))
	m.resting, errs[2] = m.meter.Int64ObservableUpDownCounter("redislimiter.fallback.resting",
		metric.WithUnit("{fallback}"), metric.WithDescription("Fallbacks that leave their failing primary limiter alone."))
	m.failures, errs[3] = m.meter.Int64Counter("redislimiter.fallback.failures",
		metric.WithUnit("{failure}"), metric.WithDescription("Decisions that a Fallback's primary limiter did not make."))
	if err := errors.Join(errs[:]...); err != nil {
		return nil, err
	}
	return m, nil
}

// Observe records a decision. It allocates nothing for labels that it has seen
// before.
func (m *Metrics) Observe(ctx context.Context, e redislimiter.Event) {
	if e.N == 0 {
		return
	}
	o := m.optionsOf(labelsOf(e.Result, e.Err))
	m.decisions.Add(ctx, 1, o.add...)
	m.duration.Record(ctx, e.Elapsed.Seconds(), o.record...)
}

// Failures makes a function for [redislimiter.Fallback.OnError] that counts the
// failures of its primary, under a policy's name.
func (m *Metrics) Failures(policy string) func(error) {
	return func(err error) {
		m.failures.Add(context.Background(), 1, metric.WithAttributes(
			attribute.String("policy", policy), attribute.String("error.type", errorType(err))))
	}
}

// Watch reports whether f leaves its primary alone, under a policy's name, until
// the registration that it returns is unregistered.
func (m *Metrics) Watch(policy string, f *redislimiter.Fallback) (metric.Registration, error) {
	policyOnly := metric.WithAttributeSet(attribute.NewSet(attribute.String("policy", policy)))
	return m.meter.RegisterCallback(func(_ context.Context, o metric.Observer) error {
		resting := int64(0)
		if f.Resting() {
			resting = 1
		}
		o.ObserveInt64(m.resting, resting, policyOnly)
		return nil
	}, m.resting)
}

func labelsOf(r redislimiter.Result, err error) labels {
	l := labels{policy: r.Name, outcome: "refused", source: r.Source.String()}
	switch {
	case err != nil:
		l.outcome, l.source, l.failure = "error", redislimiter.SourceNone.String(), errorType(err)
	case r.Shadowed:
		l.outcome = "shadowed"
	case r.Allowed:
		l.outcome = "allowed"
	}
	if l.policy == "" {
		l.policy = "unknown"
	}
	return l
}

// errorType is one of a few words. The order matters: what is uncertain or
// misconfigured is also unavailable, and some of that is by a deadline.
func errorType(err error) string {
	for _, kind := range []struct {
		is   error
		word string
	}{
		{redislimiter.ErrNeverAllowed, "never_allowed"},
		{redislimiter.ErrMisconfigured, "misconfigured"},
		{redislimiter.ErrUncertain, "uncertain"},
		{redislimiter.ErrUnavailable, "unavailable"},
		{context.Canceled, "canceled"},
		{context.DeadlineExceeded, "deadline_exceeded"},
	} {
		if errors.Is(err, kind.is) {
			return kind.word
		}
	}
	return "_OTHER" // what the semantic conventions call it
}

func (l labels) attributes() []attribute.KeyValue {
	all := []attribute.KeyValue{
		attribute.String("policy", l.policy), attribute.String("outcome", l.outcome), attribute.String("source", l.source),
	}
	if l.failure != "" {
		all = append(all, attribute.String("error.type", l.failure))
	}
	return all
}

// maxSets bounds what is held for limiters whose names are made up as they go.
const maxSets = 2000

func (m *Metrics) optionsOf(l labels) options {
	m.mu.RLock()
	o, ok := m.sets[l]
	m.mu.RUnlock()
	if ok {
		return o
	}
	set := metric.WithAttributeSet(attribute.NewSet(l.attributes()...))
	o = options{add: []metric.AddOption{set}, record: []metric.RecordOption{set}}
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.sets) < maxSets {
		m.sets[l] = o
	}
	return o
}
