package otelredislimiter_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric/noop"
	sdk "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"

	"github.com/redislimiter/go-redislimiter/otelredislimiter"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// setUp makes Metrics and a reader of what they count.
func setUp(t *testing.T) (*otelredislimiter.Metrics, *sdk.ManualReader) {
	t.Helper()
	reader := sdk.NewManualReader()
	m, err := otelredislimiter.New(sdk.NewMeterProvider(sdk.WithReader(reader)))
	if err != nil {
		t.Fatal(err)
	}
	return m, reader
}

// collect returns the instruments by name.
func collect(t *testing.T, reader *sdk.ManualReader) map[string]metricdata.Metrics {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := reader.Collect(t.Context(), &all); err != nil {
		t.Fatal(err)
	}
	found := map[string]metricdata.Metrics{}
	for _, scope := range all.ScopeMetrics {
		if scope.Scope.Name != "github.com/redislimiter/go-redislimiter/otelredislimiter" {
			t.Errorf("scope %q", scope.Scope.Name)
		}
		for _, m := range scope.Metrics {
			found[m.Name] = m
		}
	}
	return found
}

// counted is the decisions by their attributes, in the order of their names.
func counted(t *testing.T, reader *sdk.ManualReader) map[string]int64 {
	t.Helper()
	counts := map[string]int64{}
	all := collect(t, reader)
	sum, ok := all["redislimiter.decisions"].Data.(metricdata.Sum[int64])
	if !ok || !sum.IsMonotonic {
		t.Fatalf("%+v", all["redislimiter.decisions"])
	}
	for _, p := range sum.DataPoints {
		counts[text(p.Attributes)] = p.Value
	}
	return counts
}

func text(set attribute.Set) string { return set.Encoded(attribute.DefaultEncoder()) }

// A down limiter tells its name, as a Limiter does, and decides nothing.
type down struct{ err error }

func (down) Name() string { return "api" }

func (down) Limits() []redislimiter.Limit {
	return []redislimiter.Limit{redislimiter.TokenBucket(1, time.Second, 1)}
}

func (d down) AllowN(context.Context, string, int) (redislimiter.Result, error) {
	return redislimiter.Result{Name: "api"}, d.err
}

func memory(t *testing.T, burst int) *redislimiter.Memory {
	t.Helper()
	l, err := redislimiter.NewMemory("api", redislimiter.TokenBucket(1, time.Hour, burst))
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func ask(t *testing.T, l redislimiter.Allower, keys ...string) {
	t.Helper()
	for _, key := range keys {
		_, _ = l.AllowN(t.Context(), key, 1)
	}
}

func TestDecisionsAreCountedByOutcome(t *testing.T) {
	m, reader := setUp(t)
	ask(t, redislimiter.Observe(memory(t, 2), m.Observe), "a", "a", "a", "b")
	ask(t, redislimiter.Observe(redislimiter.Shadow(memory(t, 1)), m.Observe), "a", "a")
	ask(t, redislimiter.Observe(redislimiter.CacheDenials(memory(t, 1), 100), m.Observe), "a", "a", "a")
	failing := down{redislimiter.ErrUnavailable}
	ask(t, redislimiter.Observe(&redislimiter.Fallback{Primary: failing, Secondary: redislimiter.Open}, m.Observe), "a")
	ask(t, redislimiter.Observe(&redislimiter.Fallback{Primary: failing, Secondary: redislimiter.Closed}, m.Observe), "a", "b")
	ask(t, redislimiter.Observe(redislimiter.Open, m.Observe), "a")
	look := redislimiter.Observe(memory(t, 2), m.Observe)
	if _, err := look.AllowN(t.Context(), "a", 0); err != nil {
		t.Fatal(err)
	}
	want := map[string]int64{
		"outcome=allowed,policy=api,source=memory":     5,
		"outcome=refused,policy=api,source=memory":     2,
		"outcome=shadowed,policy=api,source=memory":    1,
		"outcome=refused,policy=api,source=deny-cache": 1,
		"outcome=allowed,policy=api,source=open":       1,
		"outcome=refused,policy=api,source=closed":     2,
		"outcome=allowed,policy=unknown,source=open":   1,
	}
	if got := counted(t, reader); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("got  %v\nwant %v", got, want)
	}
}

func TestErrorsHaveAType(t *testing.T) {
	for want, err := range map[string]error{
		"unavailable":       redislimiter.ErrUnavailable,
		"uncertain":         fmt.Errorf("%w: %w", redislimiter.ErrUnavailable, redislimiter.ErrUncertain),
		"misconfigured":     fmt.Errorf("%w: %w", redislimiter.ErrUnavailable, redislimiter.ErrMisconfigured),
		"never_allowed":     redislimiter.ErrNeverAllowed,
		"canceled":          context.Canceled,
		"deadline_exceeded": context.DeadlineExceeded,
		"_OTHER":            errors.New("203.0.113.9 has no plan"),
	} {
		m, reader := setUp(t)
		ask(t, redislimiter.Observe(down{err}, m.Observe), "a")
		name := "error.type=" + want + ",outcome=error,policy=api,source=none"
		if got := counted(t, reader); len(got) != 1 || got[name] != 1 {
			t.Errorf("%v: %v", err, got)
		}
	}
}

func TestNamesUnitsAndBoundaries(t *testing.T) {
	m, reader := setUp(t)
	f := &redislimiter.Fallback{Primary: memory(t, 1), Secondary: redislimiter.Open}
	if _, err := m.Watch("api", f); err != nil {
		t.Fatal(err)
	}
	m.Failures("api")(redislimiter.ErrUnavailable)
	m.Observe(t.Context(), redislimiter.Event{Key: "a", N: 1, Elapsed: 3 * time.Millisecond, Result: redislimiter.Result{Name: "api"}})
	all := collect(t, reader)
	for name, unit := range map[string]string{
		"redislimiter.decisions":         "{request}",
		"redislimiter.decision.duration": "s",
		"redislimiter.fallback.failures": "{failure}",
		"redislimiter.fallback.resting":  "{fallback}",
	} {
		if all[name].Unit != unit || all[name].Description == "" {
			t.Errorf("%s: %+v", name, all[name])
		}
	}
	if len(all) != 4 {
		t.Errorf("%d instruments", len(all))
	}
	points := all["redislimiter.decision.duration"].Data.(metricdata.Histogram[float64]).DataPoints
	if len(points) != 1 || text(points[0].Attributes) != "outcome=refused,policy=api,source=none" || points[0].Sum != 0.003 {
		t.Fatalf("%+v", points)
	}
	for i, count := range points[0].BucketCounts {
		if (count == 1) != (points[0].Bounds[min(i, 12)] == 0.005) {
			t.Errorf("%d in the bucket below %v", count, points[0].Bounds[min(i, 12)])
		}
	}
}

func TestRestingFallbacks(t *testing.T) {
	m, reader := setUp(t)
	f := &redislimiter.Fallback{Primary: down{redislimiter.ErrUnavailable}, Secondary: redislimiter.Open, Cooldown: time.Hour}
	registration, err := m.Watch("api", f)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Watch("login", &redislimiter.Fallback{Primary: memory(t, 1), Secondary: redislimiter.Closed}); err != nil {
		t.Fatal(err)
	}
	resting := func() map[string]int64 {
		values := map[string]int64{}
		for _, p := range collect(t, reader)["redislimiter.fallback.resting"].Data.(metricdata.Sum[int64]).DataPoints {
			values[text(p.Attributes)] = p.Value
		}
		return values
	}
	if got := resting(); len(got) != 2 || got["policy=api"] != 0 || got["policy=login"] != 0 {
		t.Errorf("at first: %v", got)
	}
	ask(t, f, "a", "a", "a", "a", "a")
	if got := resting(); got["policy=api"] != 1 || got["policy=login"] != 0 {
		t.Errorf("after five failures: %v", got)
	}
	if err := registration.Unregister(); err != nil {
		t.Fatal(err)
	}
	if got := resting(); len(got) != 1 {
		t.Errorf("unregistered: %v", got)
	}
}

func TestFailuresOfPrimaries(t *testing.T) {
	m, reader := setUp(t)
	f := &redislimiter.Fallback{Primary: down{redislimiter.ErrMisconfigured}, Secondary: redislimiter.Open, OnError: m.Failures("api"), Cooldown: time.Hour}
	ask(t, f, "a", "a", "a", "a", "a", "a", "a") // two while it rests
	points := collect(t, reader)["redislimiter.fallback.failures"].Data.(metricdata.Sum[int64]).DataPoints
	if len(points) != 1 || text(points[0].Attributes) != "error.type=misconfigured,policy=api" || points[0].Value != 5 {
		t.Fatalf("%+v", points)
	}
}

// A hundred thousand keys, everything that can happen to them, and two policies.
func TestKeysMakeNoSeries(t *testing.T) {
	m, reader := setUp(t)
	login, err := redislimiter.NewMemory("login", redislimiter.FixedWindow(1, time.Hour))
	if err != nil {
		t.Fatal(err)
	}
	failing := down{redislimiter.ErrUnavailable}
	limiters := []redislimiter.Allower{memory(t, 1), redislimiter.Shadow(memory(t, 1)), redislimiter.CacheDenials(login, 1000),
		&redislimiter.Fallback{Primary: failing, Secondary: redislimiter.Open}, &redislimiter.Fallback{Primary: failing, Secondary: redislimiter.Closed}, failing}
	var wg sync.WaitGroup
	const keys = 100_000
	for which, l := range limiters {
		if f, ok := l.(*redislimiter.Fallback); ok {
			f.OnError = m.Failures("api")
			if _, err := m.Watch("api", f); err != nil {
				t.Fatal(err)
			}
		}
		l = redislimiter.Observe(l, m.Observe)
		wg.Go(func() {
			for i := range keys / len(limiters) {
				key := fmt.Sprintf("2001:db8:%d::%x", which, i)
				_, _ = l.AllowN(t.Context(), key, 1)
				_, _ = l.AllowN(t.Context(), key, i%3)
			}
		})
	}
	wg.Wait()
	series := 0
	for _, instrument := range collect(t, reader) {
		switch data := instrument.Data.(type) {
		case metricdata.Sum[int64]:
			series += len(data.DataPoints)
		case metricdata.Histogram[float64]:
			series += len(data.DataPoints)
		}
	}
	if series < 10 || series > 50 {
		t.Fatalf("%d series", series)
	}
	t.Logf("%d series", series)
}

func TestRecordingAllocatesNothing(t *testing.T) {
	m, err := otelredislimiter.New(noop.NewMeterProvider())
	if err != nil {
		t.Fatal(err)
	}
	withSDK, _ := setUp(t)
	ctx := t.Context()
	e := redislimiter.Event{Key: "k", N: 1, Elapsed: time.Millisecond, Result: redislimiter.Result{Name: "api", Allowed: true, Source: redislimiter.SourceRedis}}
	if n := testing.AllocsPerRun(100, func() { m.Observe(ctx, e) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	// What the SDK adds of its own is not ours to say; two instruments, few of them.
	if n := testing.AllocsPerRun(100, func() { withSDK.Observe(ctx, e) }); n > 4 {
		t.Errorf("%v allocations with the SDK", n)
	} else {
		t.Logf("%v allocations with the SDK", n)
	}
}

// Without a provider of one's own it is the global one.
func TestGlobalProviders(t *testing.T) {
	reader := sdk.NewManualReader()
	before := otel.GetMeterProvider()
	otel.SetMeterProvider(sdk.NewMeterProvider(sdk.WithReader(reader)))
	defer otel.SetMeterProvider(before)
	m, err := otelredislimiter.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	ask(t, otelredislimiter.Spans(redislimiter.Observe(memory(t, 1), m.Observe), nil), "a")
	if got := counted(t, reader); got["outcome=allowed,policy=api,source=memory"] != 1 {
		t.Fatalf("%v", got)
	}
}

// Names that are made up as they go are not held for ever.
func TestManyPolicies(t *testing.T) {
	m, reader := setUp(t)
	for i := range 5000 {
		m.Observe(t.Context(), redislimiter.Event{N: 1, Result: redislimiter.Result{Name: fmt.Sprint("tenant-", i), Allowed: true}})
	}
	total := int64(0)
	for _, count := range counted(t, reader) {
		total += count
	}
	if total != 5000 {
		t.Fatalf("%d of 5000 decisions", total)
	}
}
