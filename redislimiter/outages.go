package redislimiter

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// LogOutages makes an observer, for [Observe], that tells logger when decisions
// are missing or are made without counting: a warning at once, with how many
// there were every ten seconds for as long as it goes on, and a note when it is
// over, which is after ten seconds without one. An [ErrMisconfigured] is logged as
// an error instead, since it does not end by itself. No line holds a key. A nil
// logger is slog.Default, as it is at the time.
//
// It is for limiters without a [Fallback]: a Fallback logs its outages itself, in
// the same words, so its decisions are left out here. Make one for each limiter:
// lines carry the name of the limiter whose decision was the last.
//
// Callers who give up, or ask for what can never be allowed, are no outage.
func LogOutages(logger *slog.Logger) func(context.Context, Event) {
	var log outageLog
	return func(ctx context.Context, e Event) {
		r, err := e.Result, e.Err
		if r.Degraded || err != nil && (callerMistake(err) || gaveUp(ctx, err)) {
			return
		}
		log.note(ctx, logger, err != nil || r.Source == SourceOpen || r.Source == SourceClosed, r, err)
	}
}

// gaveUp reports whether there is no decision because the caller left.
func gaveUp(ctx context.Context, err error) bool {
	return !errors.Is(err, ErrUnavailable) && ctx.Err() != nil
}

// logEvery bounds the rate of the log, and is how long an outage has to be over
// before it is.
const logEvery = 10 * time.Second

// An outageLog tells of outages at a bounded rate: two lines every ten seconds at
// most, however fast Redis comes and goes. It needs no timer, so the last lines
// wait for the next decision.
type outageLog struct {
	on atomic.Bool // an outage goes on: what is without trouble takes no lock

	mu    sync.Mutex
	since time.Time // the outage began
	last  time.Time // trouble was seen last
	said  time.Time // the last line was logged
	count int       // decisions in trouble since that line
	total int       // and since the outage began
	cause error     // the latest that was known
	name  string    // of the limiter, the latest that was known
}

// An outageLine is what there is to say.
type outageLine struct {
	level slog.Level
	text  string
	attrs []slog.Attr
}

// note takes note of a decision, and of its trouble and the cause of it, as far as
// that is known.
func (o *outageLog) note(ctx context.Context, logger *slog.Logger, trouble bool, r Result, cause error) {
	if !trouble && !o.on.Load() {
		return
	}
	line, ok := o.next(time.Now(), trouble, r, cause)
	if !ok {
		return
	}
	if logger == nil {
		logger = slog.Default()
	}
	logger.LogAttrs(ctx, line.level, line.text, line.attrs...)
}

// next counts, and returns the line that it is time for.
func (o *outageLog) next(now time.Time, trouble bool, r Result, cause error) (line outageLine, ok bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if !trouble {
		return o.over(now, r)
	}
	begins := !o.on.Swap(true)
	if begins {
		o.since, o.total, o.cause, o.name = now, 0, nil, ""
	}
	o.last = now
	o.count++
	o.total++
	if cause != nil {
		o.cause = cause
	}
	if r.Name != "" { // unknown where a function picks the limiter and is not asked
		o.name = r.Name
	}
	if !begins && now.Sub(o.said) < logEvery {
		return line, false
	}
	text := "redislimiter: decisions are made without the limiter"
	if r.Source == SourceNone {
		text = "redislimiter: the limiter gives no decisions"
	}
	line = outageLine{slog.LevelWarn, text, []slog.Attr{
		slog.String("limiter", o.name), slog.String("source", r.Source.String()),
		slog.Int("decisions", o.count), slog.Duration("for", now.Sub(o.since)),
	}}
	if o.cause != nil {
		line.attrs = append(line.attrs, slog.String("error", o.cause.Error()))
	}
	if errors.Is(o.cause, ErrMisconfigured) {
		line.level = slog.LevelError
	}
	o.said, o.count = now, 0
	return line, true
}

// over ends an outage that was not seen for a while.
func (o *outageLog) over(now time.Time, r Result) (line outageLine, ok bool) {
	if !o.on.Load() || now.Sub(o.last) < logEvery {
		return line, false
	}
	o.on.Store(false)
	o.count = 0
	return outageLine{slog.LevelInfo, "redislimiter: the limiter decides again", []slog.Attr{
		slog.String("limiter", r.Name), slog.Int("decisions", o.total), slog.Duration("for", o.last.Sub(o.since)),
	}}, true
}
