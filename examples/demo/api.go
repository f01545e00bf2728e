package main

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"time"
)

//go:embed page
var page embed.FS

// contentPolicy lets the page use what is served with it, and nothing else.
const contentPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'; " +
	"base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// routes is the page, its API, and the application behind.
//
//	GET  /                page, and what it loads
//	GET  /hello, /lanes/… the application, through the load balancer
//	GET  /api/state       what the page shows, as JSON
//	GET  /api/events      the same as server-sent events
//	PUT  /api/limit       {"algorithm": "bucket", "rate": 10, "per": "1s", "burst": 20}
//	PUT  /api/policy      {"onFailure": "open"}
//	PUT  /api/cache       {"cacheDenials": true}
//	PUT  /api/redis       {"connected": false}
//	PUT  /api/load        {"mode": "equal", "clients": 3, "rate": 15, "burst": 1}
//	POST /api/blast       a client that sends a burst and goes on
//	POST /api/trials      {"scenario": "edge"}
func (c *cockpit) routes(application http.Handler) http.Handler {
	files, err := fs.Sub(page, "page")
	if err != nil {
		panic(err) // it is embedded
	}
	mux := http.NewServeMux()
	mux.Handle("GET /", pageHeaders(http.FileServerFS(files)))
	mux.Handle("GET /hello", application)
	mux.Handle("GET /lanes/{lane}", application)
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /api/state", c.getState)
	mux.HandleFunc("GET /api/events", func(w http.ResponseWriter, r *http.Request) { c.hub.stream(w, r, c.missed) })
	mux.HandleFunc("PUT /api/limit", takes(c.putLimit))
	mux.HandleFunc("PUT /api/policy", takes(c.putPolicy))
	mux.HandleFunc("PUT /api/cache", takes(c.putCache))
	mux.HandleFunc("PUT /api/redis", takes(c.putRedis))
	mux.HandleFunc("PUT /api/load", takes(c.putLoad))
	mux.HandleFunc("POST /api/blast", takes(c.postBlast))
	mux.HandleFunc("POST /api/trials", takes(c.postTrial))
	return http.NewCrossOriginProtection().Handler(mux)
}

func pageHeaders(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-cache")
		next.ServeHTTP(w, r)
	})
}

// changeTimeout is how long a change may take until all instances have it.
const changeTimeout = 5 * time.Second

// takes makes a handler of a function that takes a JSON object.
func takes[T any](f func(context.Context, T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var body T
		err := readJSON(w, r, &body)
		if err == nil {
			ctx, cancel := context.WithTimeout(r.Context(), changeTimeout)
			defer cancel()
			err = f(ctx, body)
		}
		if err != nil {
			writeError(w, err)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}
}

func (c *cockpit) getState(w http.ResponseWriter, _ *http.Request) {
	c.mu.Lock()
	latest := c.latest
	c.mu.Unlock()
	if latest == nil {
		writeError(w, statusError{http.StatusServiceUnavailable, errors.New("the instances have not been asked yet")})
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = w.Write(latest) // the client may be gone
}

type limitRequest struct {
	Algorithm string `json:"algorithm"`
	Rate      int    `json:"rate"`
	Per       span   `json:"per"`
	Burst     int    `json:"burst"` // kept for algorithms that have none
}

func (c *cockpit) putLimit(ctx context.Context, r limitRequest) error {
	return c.propose(ctx, func(s *settings) {
		s.Algorithm, s.Rate, s.Per = r.Algorithm, r.Rate, r.Per
		if a, err := algorithmOf(r.Algorithm); err == nil && a.hasBurst {
			s.Burst = r.Burst
		}
	})
}

func (c *cockpit) putPolicy(ctx context.Context, r struct {
	OnFailure string `json:"onFailure"`
}) error {
	return c.propose(ctx, func(s *settings) { s.OnFailure = r.OnFailure })
}

func (c *cockpit) putCache(ctx context.Context, r struct {
	CacheDenials *bool `json:"cacheDenials"`
}) error {
	if r.CacheDenials == nil {
		return fmt.Errorf("cacheDenials: missing, must be true or false")
	}
	return c.propose(ctx, func(s *settings) { s.CacheDenials = *r.CacheDenials })
}

func (c *cockpit) putRedis(ctx context.Context, r struct {
	Connected *bool `json:"connected"`
}) error {
	if r.Connected == nil {
		return fmt.Errorf("connected: missing, must be true or false")
	}
	return c.connect(ctx, *r.Connected)
}

func (c *cockpit) putLoad(_ context.Context, s loadSettings) error { return c.load.set(s) }

func (c *cockpit) postBlast(context.Context, struct{}) error {
	if err := c.load.blast(); err != nil {
		return err
	}
	c.note("blast")
	return nil
}

func (c *cockpit) postTrial(_ context.Context, r struct {
	Scenario string `json:"scenario"`
}) error {
	return c.trials.start(r.Scenario)
}
