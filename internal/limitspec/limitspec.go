// Package limitspec reads limits that are written down as text, on a command
// line or in an environment variable.
//
//	fixed_window:RATE/PER
//	sliding_window_log:RATE/PER
//	sliding_window_counter:RATE/PER
//	token_bucket:RATE/PER:burst=N
//	gcra:RATE/PER:burst=N
//	leaky_bucket:RATE/PER:queue=N
//	block_after:REFUSALS/WITHIN:block=TIME
//
// RATE, REFUSALS and N are whole numbers. PER, WITHIN and TIME are durations as
// Go writes them, such as 500ms, 1m30s; whole days, such as 30d; or a unit alone,
// which means one of it: 100/m is 100/1m.
package limitspec

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redislimiter/go-redislimiter/internal/model"
	"github.com/redislimiter/go-redislimiter/redislimiter"
)

// A Spec is a limit that was read. The zero Spec is none.
type Spec struct {
	Limit redislimiter.Limit
	Rule  model.Rule // the same
	text  string
}

// An algorithm is what a limit's first word means.
type algorithm struct {
	name   string
	option string // the name of the third argument, or empty
	make   func(rate int, per time.Duration, n int, d time.Duration) (redislimiter.Limit, model.Rule)
}

var algorithms = []algorithm{
	{"fixed_window", "", func(rate int, per time.Duration, _ int, _ time.Duration) (redislimiter.Limit, model.Rule) {
		return redislimiter.FixedWindow(rate, per), model.FixedWindow{Rate: rate, Per: per}
	}},
	{"sliding_window_log", "", func(rate int, per time.Duration, _ int, _ time.Duration) (redislimiter.Limit, model.Rule) {
		return redislimiter.SlidingWindowLog(rate, per), model.SlidingWindowLog{Rate: rate, Per: per}
	}},
	{"sliding_window_counter", "", func(rate int, per time.Duration, _ int, _ time.Duration) (redislimiter.Limit, model.Rule) {
		return redislimiter.SlidingWindowCounter(rate, per), model.NewSlidingWindowCounter(rate, per)
	}},
	{"token_bucket", "burst", func(rate int, per time.Duration, n int, _ time.Duration) (redislimiter.Limit, model.Rule) {
		return redislimiter.TokenBucket(rate, per, n), model.NewTokenBucket(rate, per, n)
	}},
	{"gcra", "burst", func(rate int, per time.Duration, n int, _ time.Duration) (redislimiter.Limit, model.Rule) {
		return redislimiter.GCRA(rate, per, n), model.GCRA{TokenBucket: model.NewTokenBucket(rate, per, n)}
	}},
	{"leaky_bucket", "queue", func(rate int, per time.Duration, n int, _ time.Duration) (redislimiter.Limit, model.Rule) {
		return redislimiter.LeakyBucket(rate, per, n), model.LeakyBucket{TokenBucket: model.NewTokenBucket(rate, per, n)}
	}},
	{"block_after", "block", func(refusals int, within time.Duration, _ int, block time.Duration) (redislimiter.Limit, model.Rule) {
		return redislimiter.BlockAfter(refusals, within, block), model.BlockAfter{Refusals: refusals, Within: within, Block: block}
	}},
}

// Names are the algorithms that a limit can begin with.
func Names() []string {
	var names []string
	for _, a := range algorithms {
		names = append(names, a.name)
	}
	return names
}

// Parse reads one limit. The error names the part that is wrong.
func Parse(text string) (Spec, error) {
	name, rest, _ := strings.Cut(text, ":")
	at := slices.IndexFunc(algorithms, func(a algorithm) bool { return a.name == name })
	if at < 0 {
		return Spec{}, fmt.Errorf("limit %q: no algorithm %q, there are %s", text, name, strings.Join(Names(), ", "))
	}
	s, err := algorithms[at].parse(rest)
	if err != nil {
		return Spec{}, fmt.Errorf("limit %q: %w", text, err)
	}
	return s, nil
}

func (a algorithm) parse(rest string) (Spec, error) {
	quota, option, _ := strings.Cut(rest, ":")
	amount, period, ok := strings.Cut(quota, "/")
	if !ok {
		return Spec{}, fmt.Errorf("%q is not a rate such as 100/1m", quota)
	}
	rate, err := strconv.Atoi(amount)
	if err != nil {
		return Spec{}, fmt.Errorf("rate %q is not a whole number", amount)
	}
	per, err := duration(period)
	if err != nil {
		return Spec{}, err
	}
	n, d, err := a.third(option)
	if err != nil {
		return Spec{}, err
	}
	var s Spec
	s.Limit, s.Rule = a.make(rate, per, n, d)
	if err := s.Rule.Validate(); err != nil {
		return Spec{}, err
	}
	s.text = fmt.Sprintf("%s:%d/%s", a.name, rate, short(per))
	switch a.option {
	case "":
	case "block":
		s.text += ":block=" + short(d)
	default:
		s.text += fmt.Sprintf(":%s=%d", a.option, n)
	}
	return s, nil
}

// third reads what follows the rate.
func (a algorithm) third(option string) (n int, d time.Duration, err error) {
	name, value, _ := strings.Cut(option, "=")
	switch {
	case a.option == "" && option == "":
		return 0, 0, nil
	case a.option == "":
		return 0, 0, fmt.Errorf("%q: nothing follows the rate of a %s", option, a.name)
	case name != a.option:
		return 0, 0, fmt.Errorf("after the rate, a %s needs %s=…", a.name, a.option)
	case a.option == "block":
		d, err = duration(value)
		return 0, d, err
	}
	if n, err = strconv.Atoi(value); err != nil {
		return 0, 0, fmt.Errorf("%s %q is not a whole number", a.option, value)
	}
	return n, 0, nil
}

const day = 24 * time.Hour

func duration(text string) (time.Duration, error) {
	days, isDays := strings.CutSuffix(text, "d")
	if isDays && days == "" {
		return day, nil
	}
	if isDays {
		n, err := strconv.Atoi(days)
		if err != nil || n < 0 || n > 3650 {
			return 0, fmt.Errorf("%q is not a number of days up to 3650", text)
		}
		return time.Duration(n) * day, nil
	}
	if d, err := time.ParseDuration("1" + text); err == nil && !strings.ContainsAny(text, "0123456789.") {
		return d, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil {
		return 0, fmt.Errorf("%q is not a duration such as 500ms, 1m or 30d", text)
	}
	return d, nil
}

// short writes a duration without parts that are zero: 1m0s as 1m.
func short(d time.Duration) string {
	if d >= day && d%day == 0 {
		return strconv.Itoa(int(d/day)) + "d"
	}
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}

// String is the limit as it would be written down.
func (s Spec) String() string { return s.text }

// MarshalText writes what UnmarshalText reads.
func (s Spec) MarshalText() ([]byte, error) {
	if s.Rule == nil {
		return nil, errors.New("no limit")
	}
	return []byte(s.text), nil
}

// UnmarshalText is Parse.
func (s *Spec) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err == nil {
		*s = parsed
	}
	return err
}
