// Package otelredislimiter counts what rate limiters decide as OpenTelemetry
// metrics, and records decisions as spans where that is asked for.
//
// The metrics, in the scope named like this package:
//
//	redislimiter.decisions            counter, {request}: decisions
//	redislimiter.decision.duration    histogram, s: the time that they took
//	redislimiter.fallback.failures    counter, {failure}: a Fallback's primary gave no decision;
//	                                  see Metrics.Failures
//	redislimiter.fallback.resting     up-down counter, {fallback}: 1 while a Fallback leaves
//	                                  its primary alone; see Metrics.Watch
//
// The first two have the attributes
//
//	policy       the limiter's name, "unknown" if nobody says it
//	outcome      allowed, refused, shadowed (refused, but let through by Shadow) or error
//	source       who decided: redis, memory, deny-cache, lease, open or closed; none if outcome is error
//	error.type   if outcome is error: misconfigured, uncertain, unavailable, never_allowed,
//	             canceled, deadline_exceeded or _OTHER
//
// so that a policy makes a handful of series, however many keys it has: a key is
// never an attribute. The others have policy; failures have error.type as well.
//
// Observe the outermost limiter, whose decisions are those that callers get: behind a
// Fallback failures have become decisions, and Failures counts them. Failing open is source open, failing closed is outcome
// refused with source closed. Looks (n = 0) are not counted.
package otelredislimiter
