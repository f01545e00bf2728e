package server

import (
	"context"
	"strconv"
	"strings"
	"time"
)

// Usage is what the server has counted since it was started.
type Usage struct {
	CPU    time.Duration
	Memory float64            // bytes
	Calls  map[string]float64 // by command, those that scripts made included
	Micros map[string]float64 // of time inside a command, what a script called included
}

// Usage reads the counters.
func (s *Server) Usage(ctx context.Context) (Usage, error) {
	text, err := s.Do(ctx, "INFO", "cpu", "memory", "commandstats").Text()
	if err != nil {
		return Usage{}, err
	}
	u := Usage{Calls: map[string]float64{}, Micros: map[string]float64{}}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		switch {
		case name == "used_cpu_sys" || name == "used_cpu_user":
			u.CPU += time.Duration(number(value) * float64(time.Second))
		case name == "used_memory":
			u.Memory = number(value)
		case strings.HasPrefix(name, "cmdstat_"):
			command := strings.TrimPrefix(name, "cmdstat_")
			for field := range strings.SplitSeq(value, ",") {
				switch key, n, _ := strings.Cut(field, "="); key {
				case "calls":
					u.Calls[command] = number(n)
				case "usec":
					u.Micros[command] = number(n)
				}
			}
		}
	}
	return u, nil
}

func number(s string) float64 {
	n, _ := strconv.ParseFloat(s, 64) // a counter that cannot be read shows as 0
	return n
}

// Since is what came on top of an earlier reading. INFO itself is left out.
func (u Usage) Since(before Usage) Usage {
	d := Usage{CPU: u.CPU - before.CPU, Memory: u.Memory - before.Memory, Calls: map[string]float64{}, Micros: map[string]float64{}}
	for command, n := range u.Calls {
		if n -= before.Calls[command]; n > 0 && command != "info" {
			d.Calls[command], d.Micros[command] = n, u.Micros[command]-before.Micros[command]
		}
	}
	return d
}

// Script is the time inside a call of a script, in microseconds.
func (u Usage) Script() float64 {
	return (u.Micros["evalsha"] + u.Micros["eval"]) / (u.Calls["evalsha"] + u.Calls["eval"])
}

// Total is how many commands ran, scripts and what they called.
func (u Usage) Total() float64 {
	sum := 0.0
	for _, n := range u.Calls {
		sum += n
	}
	return sum
}

// Fact is one line of INFO, empty if the server does not tell.
func (s *Server) Fact(ctx context.Context, section, name string) string {
	text, _ := s.Info(ctx, section).Result()
	for line := range strings.Lines(text) {
		if value, ok := strings.CutPrefix(line, name+":"); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
