// Package redislimiter limits how much may be done for a key, such as a customer
// or an address, by state in Redis that all instances of a service share.
//
//	limiter, err := redislimiter.New(rdb, "api", redislimiter.TokenBucket(10, time.Second, 20))
//	…
//	result, err := limiter.Allow(ctx, "customer-7")
//
// A refusal is an answer: result.Allowed is false, and result.RetryAfter says for how
// long. An error means that there is no answer. Package middleware does the rest for
// HTTP.
//
// # Limits
//
// A [Limit] is made by the function named after its algorithm: [TokenBucket] is what
// most APIs want, [GCRA] decides the same and is stored as a string,
// [SlidingWindowLog] is exact for every window, [SlidingWindowCounter] estimates it in
// little memory, [FixedWindow] is a quota as it is sold, [LeakyBucket] makes callers
// wait for their turn, and [BlockAfter] is a penalty beside others. Several limits of a
// limiter are charged together or not at all, and so are several limiters by
// [AllowAll].
//
// # Limiters
//
// A [Limiter] decides by Redis, a [Memory] by this process alone, with the same results.
// Around them, or each other, go
//
//   - [Fallback]: who decides when Redis does not: [Open], [Closed] or a Memory;
//   - [Shadow]: refuses nothing, and marks what would be refused;
//   - [Observe]: passes each decision on, to [LogOutages], [TopRefused] or metrics;
//   - [CacheDenials] and [Lease]: save trips to Redis;
//   - an [AllowerFunc] of yours, which picks a limiter by plan or tenant.
//
// All of them are safe for concurrent use once their fields are set.
//
// [Wait] waits until a limiter admits, and [Result.Refund] gives back what was not
// used, through all of these.
//
// # Errors
//
// [ErrNeverAllowed] is the caller's mistake: no waiting helps. [ErrUnavailable] is an
// outage; if it is also [ErrMisconfigured], it does not end by itself, and if it is
// also [ErrUncertain], the units may have been charged. No error and no line of the log
// holds a key.
//
// Nothing here has to be closed. Constructors send nothing and start no goroutine;
// the Redis client stays yours.
package redislimiter
