package redislimiter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/sony/gobreaker/v2"

	"github.com/redislimiter/go-redislimiter/internal/model"
)

const (
	defaultCooldown = 250 * time.Millisecond
	defaultFailures = 5
)

// A Fallback asks Primary, and Secondary when Primary gives no decision: fail
// open with [Open], fail closed with [Closed], or keep limiting in this
// process with a [Memory] whose limits are divided by [Limit.Share].
//
// After Failures failures in a row it stops asking Primary for Cooldown, so
// that an outage costs nothing per request. Then one request is the probe
// while the others still get Secondary; its success brings all back to
// Primary. Results say in their Source who decided.
//
// A caller that gives up, or asks for what can never be allowed, gets that
// error and is no failure of Primary. Nor is it one when the context's deadline
// passes that left it less than half of Timeout (of 100 ms if that is 0): who sends
// requests in a hurry must not be able to turn Primary off for all. Secondary has to decide at once; Primary
// has to return when its context is done, as everything in this package does.
//
// What fits Primary but not a Secondary that has a share of the limit is refused with
// a RetryAfter of one second.
//
// Fields are set before the first use; one that is nil though required, or negative,
// makes every call an error. A Fallback must not be copied after its first use.
type Fallback struct {
	Primary   Allower // required
	Secondary Allower // required

	// Timeout bounds Primary. 0 leaves it to Primary and the caller.
	Timeout time.Duration
	// Cooldown is how long Primary is left alone. 0 means 250 ms.
	Cooldown time.Duration
	// Failures is how many in a row it takes. 0 means 5.
	Failures int

	// OnError hears each failure of Primary, before Secondary is asked.
	// errors.Is(err, ErrMisconfigured) tells what an operator has to mend
	// from an outage that ends by itself. It is called by the goroutine that
	// asks, so it has to be quick, and often during an outage until the
	// Cooldown begins. nil hears nothing.
	OnError func(error)

	// Logger is told at a bounded rate that Secondary decides, also if there is
	// an OnError: at once, every ten seconds with the number of decisions and the
	// reason, and when it is over; see [LogOutages]. nil is slog.Default; to
	// switch it off takes a slog.DiscardHandler.
	Logger *slog.Logger

	once    sync.Once
	breaker *gobreaker.CircuitBreaker[Result]
	invalid error
	name    string // of Primary, as far as it is known, as are
	limits  []Limit
	most    int64 // units that Primary can ever admit at once
	log     outageLog
}

// A callersError is not Primary's fault: it passes through, uncounted.
type callersError struct{ error }

// A hasty error is not Primary's fault either, but Secondary has an answer.
type hasty struct{ error }

func (h hasty) Unwrap() error { return h.error }

// AllowN asks Primary, or Secondary if Primary gives no decision.
func (f *Fallback) AllowN(ctx context.Context, key string, n int) (Result, error) {
	f.once.Do(f.setUp)
	if f.invalid != nil {
		return Result{}, f.invalid
	}
	if err := ctx.Err(); err != nil {
		return Result{Name: f.name}, err
	}
	result, err := f.breaker.Execute(func() (Result, error) { return f.primary(ctx, key, n) })
	if err == nil {
		f.log.note(ctx, f.Logger, false, result, nil)
		return result, nil
	}
	var callers callersError
	if errors.As(err, &callers) {
		return result, callers.error
	}
	resting := errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests)
	var cause error
	if !resting {
		cause = err
		if f.OnError != nil {
			f.OnError(err)
		}
	}
	// A Primary that rests cannot say that it will never allow this.
	if err := checkN(cmp.Or(f.name, "Fallback"), n, f.most); err != nil {
		return Result{Name: f.name}, err
	}
	decided, err := f.secondary(ctx, key, n)
	told := decided
	if told.Name == "" {
		told.Name = result.Name // where Primary picks a limiter by its own rules
	}
	f.log.note(ctx, f.Logger, true, told, cause)
	return decided, err
}

// Allow is shorthand for AllowN(ctx, key, 1).
func (f *Fallback) Allow(ctx context.Context, key string) (Result, error) {
	return f.AllowN(ctx, key, 1)
}

// Resting reports whether Primary is left alone: from its last failure of Failures
// in a row until a probe succeeds. It is for metrics: one limiter's outage is no
// reason to take an instance out of service.
func (f *Fallback) Resting() bool {
	f.once.Do(f.setUp)
	return f.breaker.State() != gobreaker.StateClosed
}

func (f *Fallback) wraps() Allower { return f.Primary }

func (f *Fallback) setUp() {
	f.invalid, f.most = f.validate(), model.Unlimited
	if f.invalid == nil {
		f.name, f.limits = describe(f.Primary)
		if rules, err := rulesOf(f.limits); err == nil {
			f.most = capacityOf(rules)
		}
	}
	cooldown, failures := f.Cooldown, f.Failures
	if cooldown == 0 {
		cooldown = defaultCooldown
	}
	if failures == 0 {
		failures = defaultFailures
	}
	f.breaker = gobreaker.NewCircuitBreaker[Result](gobreaker.Settings{
		MaxRequests: 1,
		Timeout:     cooldown,
		ReadyToTrip: func(c gobreaker.Counts) bool { return c.ConsecutiveFailures >= uint32(failures) },
		IsExcluded: func(err error) bool {
			switch err.(type) {
			case callersError, hasty:
				return true
			}
			return false
		},
	})
}

func (f *Fallback) validate() error {
	text := ""
	switch {
	case f.Primary == nil:
		text = "Primary is nil"
	case f.Secondary == nil:
		text = "Secondary is nil: choose Open, Closed or a Memory"
	case f.Timeout < 0:
		text = fmt.Sprintf("Timeout is %v, must not be negative", f.Timeout)
	case f.Cooldown < 0:
		text = fmt.Sprintf("Cooldown is %v, must not be negative", f.Cooldown)
	case f.Failures < 0:
		text = fmt.Sprintf("Failures is %d, must not be negative", f.Failures)
	default:
		return nil
	}
	return &argumentError{"redislimiter: Fallback: " + text}
}

func (f *Fallback) primary(ctx context.Context, key string, n int) (Result, error) {
	bounded, hurry := ctx, false
	if deadline, ok := ctx.Deadline(); ok {
		hurry = 2*time.Until(deadline) < cmp.Or(f.Timeout, DefaultTimeout)
	}
	if f.Timeout > 0 {
		var cancel context.CancelFunc
		bounded, cancel = context.WithTimeout(ctx, f.Timeout)
		defer cancel()
	}
	result, err := f.Primary.AllowN(bounded, key, n)
	if err != nil && (callerMistake(err) || ctx.Err() == context.Canceled) {
		return result, callersError{err}
	}
	if err != nil && hurry && timeIsUp(ctx) {
		return result, hasty{err}
	}
	return result, err
}

// secondary decides for Primary.
func (f *Fallback) secondary(ctx context.Context, key string, n int) (Result, error) {
	if ctx.Err() != nil { // the deadline has passed, but an answer is at hand
		ctx = context.WithoutCancel(ctx)
	}
	result, err := f.Secondary.AllowN(ctx, key, n)
	if errors.Is(err, ErrNeverAllowed) {
		// It fits Primary, only not this instance's share of it.
		result, err = Result{Source: SourceMemory, RetryAfter: time.Second}, nil
	}
	result.Degraded = true
	if len(f.limits) > 0 && err == nil && result.Name == "" {
		result.Name, result.Limits, result.Limit = f.name, f.limits, f.limits[0]
	}
	return result, err
}

// Open admits everything without counting, with Source open: for a [Fallback]
// where refusing good requests is worse than letting all through.
var Open Allower = AllowerFunc(func(context.Context, string, int) (Result, error) {
	return Result{Allowed: true, Source: SourceOpen}, nil
})

// Closed admits nothing, with Source closed and a RetryAfter of one second: for a
// [Fallback] that guards what must never be open, such as a login. It is not the
// client's fault: the middleware answers 503 and not 429.
var Closed Allower = AllowerFunc(func(context.Context, string, int) (Result, error) {
	return Result{Source: SourceClosed, RetryAfter: time.Second}, nil
})
