package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redislimiter/go-redislimiter/internal/keys"
	"github.com/redislimiter/go-redislimiter/internal/model"
	"github.com/redislimiter/go-redislimiter/redislimiter"
	"github.com/redislimiter/go-redislimiter/scripts"
)

type inspectCommand struct {
	limiter
	limits
	server
}

// Help is what --help says about the command.
func (*inspectCommand) Help() string {
	return `Shows every Redis key of KEY under NAME: which rules' state it holds, and when it expires. Nothing is written or charged.

What is stored does not tell rates and sizes. With the limits of the limiter, the library is asked what it would decide now: how much remains, and when the next request fits.` + limitHelp
}

// Validate names what is wrong before anything is sent.
func (c *inspectCommand) Validate() error {
	return cmp.Or(c.limiter.valid(), c.limits.valid(), c.server.valid())
}

// An inspection is what is stored for a key.
type inspection struct {
	Name     string    `json:"name"`
	Key      string    `json:"key"`
	Time     time.Time `json:"time"` // of the server
	Decision *decision `json:"decision,omitempty"`
	Stored   []held    `json:"stored"`
	Limits   []string  `json:"limits,omitempty"`
}

// A decision is what the library says about one request that comes now.
type decision struct {
	Allowed    bool    `json:"allowed"`
	Remaining  int     `json:"remaining"`
	Limit      string  `json:"limit"` // the nearest one, or the one that refuses
	RetryAfter seconds `json:"retry_after_seconds"`
	ResetAfter seconds `json:"reset_after_seconds"`
}

// A held is a Redis key that exists.
type held struct {
	RedisKey string   `json:"redis_key"`
	Type     string   `json:"type"`
	TTL      *seconds `json:"ttl_seconds"` // null: it never expires
	Rules    []rule   `json:"rules"`
	Problem  string   `json:"problem,omitempty"`
}

// A rule is what a key holds of one.
type rule struct {
	Algorithm string `json:"algorithm"`
	Limit     string `json:"limit,omitempty"` // the one given that it is of
	State     string `json:"state"`           // in words

	part string
}

type seconds time.Duration

// MarshalJSON writes seconds, to the microsecond.
func (s seconds) MarshalJSON() ([]byte, error) {
	return fmt.Appendf(nil, "%.6f", time.Duration(s).Seconds()), nil
}

func (c *inspectCommand) run(ctx context.Context, timeout time.Duration) (report, error) {
	client, to, err := c.open(timeout)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found := &inspection{Name: c.Name, Key: c.Key, Stored: []held{}}
	for _, spec := range c.Limit {
		found.Limits = append(found.Limits, spec.String())
	}
	if err := found.read(ctx, client); err != nil {
		return nil, to.explain(err)
	}
	if len(c.Limit) == 0 {
		return found, nil
	}
	if err := c.match(found); err != nil {
		return nil, err
	}
	found.Decision, err = c.decide(ctx, client, timeout)
	return found, to.explain(err)
}

// decide looks: n = 0 charges and writes nothing.
func (c *inspectCommand) decide(ctx context.Context, client redis.UniversalClient, timeout time.Duration) (*decision, error) {
	l, err := redislimiter.New(client, c.Name, c.values()...)
	if err != nil {
		return nil, err
	}
	l.Timeout = timeout
	r, err := l.AllowN(ctx, c.Key, 0)
	if err != nil {
		return nil, err
	}
	at := max(slices.Index(c.values(), r.Limit), 0)
	return &decision{r.Allowed, r.Remaining, c.Limit[at].String(), seconds(r.RetryAfter), seconds(r.ResetAfter)}, nil
}

// read fetches what is stored from the node that has it.
func (i *inspection) read(ctx context.Context, client redis.UniversalClient) error {
	segments := scripts.AllSegments()
	all := keys.Of(i.Name, segments, i.Key)
	node, err := nodeOf(ctx, client, all[0])
	if err != nil {
		return err
	}
	types, ttls := make([]*redis.StatusCmd, len(all)), make([]*redis.DurationCmd, len(all))
	var clock *redis.TimeCmd
	_, err = node.Pipelined(ctx, func(p redis.Pipeliner) error {
		clock = p.Time(ctx)
		for n, key := range all {
			types[n], ttls[n] = p.Type(ctx, key), p.PTTL(ctx, key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	i.Time = clock.Val().UTC()
	for n, key := range all {
		if types[n].Val() == "none" {
			continue
		}
		h := held{RedisKey: key, Type: types[n].Val(), Rules: []rule{}}
		if ttl := ttls[n].Val(); ttl >= 0 {
			h.TTL = (*seconds)(&ttl)
		}
		if err := h.read(ctx, node, segments[n], i.Time); err != nil {
			return err
		}
		i.Stored = append(i.Stored, h)
	}
	return nil
}

// read takes the value of a key apart.
func (h *held) read(ctx context.Context, node redis.UniversalClient, segment string, now time.Time) error {
	var parts []scripts.Stored
	var err error
	log, isLog := scripts.Log(segment)
	switch {
	case h.Type == "hash" && segment == "h":
		var fields map[string]string
		fields, err = node.HGetAll(ctx, h.RedisKey).Result()
		parts = slices.SortedFunc(maps.Values(scripts.ReadHash(fields)), func(a, b scripts.Stored) int { return cmp.Compare(a.Part, b.Part) })
	case h.Type == "string" && segment == "gcra0":
		var text string
		text, err = node.Get(ctx, h.RedisKey).Result()
		if s, ok := scripts.ReadString(text); ok {
			parts = []scripts.Stored{s}
		}
	case h.Type == "zset" && isLog:
		var words string
		words, err = readLog(ctx, node, h.RedisKey, now)
		h.Rules = append(h.Rules, rule{Algorithm: log.Algorithm, State: words, part: log.Part})
	}
	if err != nil && !errors.Is(err, redis.Nil) { // it may have expired meanwhile
		return err
	}
	for _, s := range parts {
		h.Rules = append(h.Rules, rule{Algorithm: s.Algorithm, State: inWords(s, now), part: s.Part})
	}
	switch {
	case len(h.Rules) == 0:
		h.Problem = "this is not a limiter's: decisions fail until it is gone (redislimiter reset deletes it)"
	case h.TTL == nil:
		h.Problem = "it never expires: restored or edited by hand; the next charges give it a life again"
	}
	return nil
}

func readLog(ctx context.Context, node redis.UniversalClient, key string, now time.Time) (string, error) {
	count, err := node.ZCard(ctx, key).Result()
	if err != nil || count == 0 {
		return "empty", err
	}
	oldest, err := node.ZRangeWithScores(ctx, key, 0, 0).Result()
	if err != nil {
		return "", err
	}
	newest, err := node.ZRangeWithScores(ctx, key, -1, -1).Result()
	if err != nil || len(oldest)*len(newest) == 0 {
		return "empty", err
	}
	return fmt.Sprintf("%d %s in the log, of which some may have left the window; the oldest of %s, the newest of %s",
		count, plural(count, "unit"), instant(int64(oldest[0].Score), now), instant(int64(newest[0].Score), now)), nil
}

// inWords says what the state means without the limit.
func inWords(s scripts.Stored, now time.Time) string {
	since := instant(s.State.Stamp, now)
	switch s.Algorithm {
	case "fixed window":
		return fmt.Sprintf("%d %s in the window that began %s", s.State.Used, plural(s.State.Used, "unit"), since)
	case "sliding window counter":
		return fmt.Sprintf("%d %s in the window that began %s, %d in the one before", s.State.Used, plural(s.State.Used, "unit"), since, s.State.Prev)
	case "block":
		return blockInWords(s.State, now)
	case "leaky bucket":
		return fmt.Sprintf("%s in the queue at %s, which drains since", amount(s), since)
	}
	return fmt.Sprintf("%s missing from a full bucket at %s, coming back since", amount(s), since)
}

func blockInWords(s model.State, now time.Time) string {
	words := "no refusals count"
	if s.Used > 0 {
		words = fmt.Sprintf("%d %s since %s", s.Used, plural(s.Used, "refusal"), instant(s.Stamp, now))
	}
	if until := time.UnixMicro(s.Prev).UTC(); until.After(now) {
		words += ", everything is refused until " + instant(s.Prev, now)
	}
	return words
}

// amount is how many units of the limit a bucket's counter is.
func amount(s scripts.Stored) string {
	if s.Unit < 1 {
		return "an unknown amount"
	}
	return fmt.Sprintf("%.4g %s", float64(s.State.Used)/float64(s.Unit), plural(s.State.Used/s.Unit, "unit"))
}

func plural(n int64, word string) string {
	if n == 1 {
		return word
	}
	return word + "s"
}

// instant writes a time of the server, and how far away it is.
func instant(micros int64, now time.Time) string {
	at := time.UnixMicro(micros).UTC()
	if ahead := at.Sub(now); ahead > 0 {
		return fmt.Sprintf("%s (in %v)", at.Format(time.RFC3339Nano), ahead.Round(time.Millisecond))
	}
	return fmt.Sprintf("%s (%v ago)", at.Format(time.RFC3339Nano), now.Sub(at).Round(time.Millisecond))
}

// match puts the given limits beside the states that are theirs.
func (c *inspectCommand) match(found *inspection) error {
	var rules []model.Rule
	for _, spec := range c.Limit {
		rules = append(rules, spec.Rule)
	}
	s, err := scripts.New(rules)
	if err != nil {
		return err
	}
	for _, h := range found.Stored {
		for n := range h.Rules {
			if at := slices.Index(s.Parts, h.Rules[n].part); at >= 0 {
				h.Rules[n].Limit = found.Limits[at]
			} else {
				h.Rules[n].State += "; none of the limits given reads it"
			}
		}
	}
	return nil
}

func (i *inspection) text(w io.Writer) {
	fmt.Fprintf(w, "%s, key %q, at %s by the server's clock\n", i.Name, i.Key, i.Time.Format(time.RFC3339Nano))
	if i.Decision != nil {
		i.Decision.text(w)
	}
	if len(i.Stored) == 0 {
		fmt.Fprintln(w, "\nNothing is stored: the key is as if never seen.")
	}
	for _, h := range i.Stored {
		life := "never expires"
		if h.TTL != nil {
			life = fmt.Sprintf("expires in %v", time.Duration(*h.TTL))
		}
		fmt.Fprintf(w, "\n%s  (%s, %s)\n", h.RedisKey, h.Type, life)
		for _, r := range h.Rules {
			fmt.Fprintf(w, "  %s: %s\n", cmp.Or(r.Limit, r.Algorithm), r.State)
		}
		if h.Problem != "" {
			fmt.Fprintf(w, "  PROBLEM: %s\n", h.Problem)
		}
	}
	if i.Decision == nil && len(i.Stored) > 0 {
		fmt.Fprintln(w, "\nWith its --limit the library also says what remains, and when the next request fits.")
	}
}

func (d *decision) text(w io.Writer) {
	if d.Allowed {
		fmt.Fprintf(w, "\nThe next request would be admitted; %d %s.\n", d.Remaining, remain(d.Remaining))
	} else {
		fmt.Fprintf(w, "\nThe next request would be refused; one fits in %v.\n", time.Duration(d.RetryAfter))
	}
	fmt.Fprintf(w, "Nearest limit: %s. ", d.Limit)
	if d.ResetAfter > 0 {
		fmt.Fprintf(w, "As if never seen in %v.\n", time.Duration(d.ResetAfter))
	} else {
		fmt.Fprintln(w, "Nothing counts at the moment.")
	}
}

func remain(n int) string {
	if n == 1 {
		return "remains"
	}
	return "remain"
}
