// Package middleware limits HTTP requests: it asks a limiter about each request
// before its handler runs, tells clients where they stand, and answers those that
// have to wait. It works with net/http, with chi, and with everything else that
// takes a func(http.Handler) http.Handler. All of it is safe for concurrent use once
// its fields are set.
//
//	limit := middleware.New(limiter, middleware.ByIP(trusted), nil)
//	http.ListenAndServe(":8080", limit(mux))
//
// # Who is charged
//
// A [KeyFunc] finds the key that a request is charged to: [ByIP] and
// [ByNetwork], [ByHeader], [ByBearer], [ByUser], [ByRoute], [Const], put
// together by [Join] (and), [First] (or) and [Hash] (nothing readable in
// Redis), or a function of yours. An address is only as good as the
// proxies it comes through: read [Proxies] before going live behind one.
//
// # What is answered
//
//	admitted                                  the handler's answer, with RateLimit headers
//	refused                                   429, Retry-After
//	no decision, or the limiter fails closed  503, Retry-After
//	the key is missing or malformed           400  (ErrNoKey, ErrBadKey)
//	more than the limit can ever admit        413  (redislimiter.ErrNeverAllowed)
//	the key function fails otherwise          500
//
// Bodies are problem documents (RFC 9457); [Options] has a function for each
// answer. Retry-After is in whole seconds, rounded up, at least 1, and on no
// other answers. Those without a decision must not be cached and say so; a 429
// never is. Where the decision is not the usual one, because a
// [redislimiter.Fallback] had to be asked, X-RateLimit-Fallback says whose it
// is: open, closed or memory.
//
// # What is counted
//
// Everything, but for the preflights of browsers and what [Options] or the
// KeyFunc skips, at [Options.Cost] each; or failures alone, with
// [Options.OnlyFailures]. A refused request costs nothing.
//
// Middlewares can be put around each other, for example a wide limit for all
// and a narrow one for an expensive route. The most restrictive is the one that is
// reported, once. The same limiter (the same value, not one of the same name) with
// the same key charges a request once, however often it is mounted on the way, at
// the highest of the costs, and nothing if an inner mount refuses it. Only an
// [http.TimeoutHandler] in between hides one from the other.
//
// What a [redislimiter.LeakyBucket] admits is held until its turn. A client that
// leaves meanwhile gives its place back; over HTTP/1 net/http does not notice that
// of a request with a body, which nobody has read yet.
//
// # Self-checks
//
// Three faults make a limiter useless while everything seems to work. Each is
// logged once, by [log/slog]: X-Forwarded-For arrives but [ByIP] trusts nobody;
// the first thousand requests all had the same key (unless that is [Const] or
// [ByRoute]); a key function fails. A fourth is refused: [ParseProxies] does
// not trust the whole internet.
//
// # What it costs
//
// Beside the limiter itself, a request costs about a microsecond and one
// allocation, two for IPv6 clients. The ResponseWriter is passed on as it is,
// except with OnlyFailures.
package middleware
