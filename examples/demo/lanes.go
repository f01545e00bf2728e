package main

import (
	"time"

	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A lane is a limiter of its own beside the application's, so that the same
// traffic can be given to several and compared. Its limit never changes.
type lane struct {
	name      string
	algorithm string
	onFailure string
	promise   string        // what can be admitted at worst within one period
	timeout   time.Duration // of a decision; 0 is that of the instance
}

// What every lane enforces: enough to be seen, slow enough for a busy machine.
const (
	laneRate = 10
	lanePer  = 2 * time.Second
	// patient is longer than a limiter's timeout would be: a comparison of
	// algorithms is not to show that the machine was busy.
	patient = 2 * time.Second
)

// algorithmLanes differ in the algorithm, policyLanes in the failure policy.
var (
	algorithmLanes = []lane{
		{"window", "window", "closed", "19: twice the limit, around the end of a window", patient},
		{"counter", "counter", "closed", "an estimate, under 20; nearly exact on real traffic", patient},
		{"log", "log", "closed", "10, in every window", patient},
		{"bucket", "bucket", "closed", "20: a full bucket, and what flows in", patient},
		{"gcra", "gcra", "closed", "20: decides as the token bucket", patient},
		{"leaky", "leaky", "closed", "queues up to 10, lets out one every 0.2 s", patient},
	}
	policyLanes = []lane{
		{"open", "bucket", "open", "everything while Redis is away", 0},
		{"closed", "bucket", "closed", "nothing while Redis is away: 503", 0},
		{"local", "bucket", "local", "each instance its share while Redis is away", 0},
	}
)

// limiter makes the lane's limiter for one of several instances.
func (l lane) limiter(a assembly, instances int) (redislimiter.Allower, error) {
	if l.timeout > 0 {
		a.timeout = l.timeout
	}
	_, limiter, err := a.limiter(settings{
		Algorithm: l.algorithm, Rate: laneRate, Per: span(lanePer), Burst: laneRate,
		OnFailure: l.onFailure, Instances: instances,
	})
	return limiter, err
}
