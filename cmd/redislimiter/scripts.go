package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redislimiter/go-redislimiter/internal/limitspec"
	"github.com/redislimiter/go-redislimiter/internal/model"
	"github.com/redislimiter/go-redislimiter/scripts"
)

type scriptsCommand struct {
	limits
	Only string `enum:"decide,refund,reset," default:"" placeholder:"USE" help:"Print the bare text of the script that does decide, refund or reset, to be hashed or loaded."`
	Load bool   `help:"Load them into every primary of the server by SCRIPT LOAD, rather than print them."`
	server
}

// Help is what --help says about the command.
func (*scriptsCommand) Help() string {
	return `Prints the scripts of a limiter with the given limits and the SHA-1 by which EVALSHA knows them; without limits, those of every algorithm by itself. Rates and sizes are no part of a script: limiters with the same algorithms in the same order share theirs. The scripts of AllowAll, which are joined from those of several limiters, are not among them, nor is the one by which Limiter.Check asks what the ACL allows.

    redislimiter scripts --limit gcra:1/1s:burst=1 --only decide | sha1sum` + limitHelp
}

// Validate names what is wrong before anything is sent.
func (c *scriptsCommand) Validate() error {
	if c.Only != "" && len(c.Limit) == 0 && c.Only != "reset" {
		return fmt.Errorf("--only %s: needs the limits of one limiter", c.Only)
	}
	if c.Only != "" && c.Load {
		return errors.New("--only is for printing, --load loads all")
	}
	return cmp.Or(c.limits.valid(), c.server.valid())
}

// A script is one that a limiter uses.
type script struct {
	Use    string   `json:"use"`
	Limits []string `json:"limits,omitempty"` // one limiter that uses it
	SHA    string   `json:"sha1"`
	Source string   `json:"source"`
}

// A listing is the scripts asked for.
type listing struct {
	Scripts []script `json:"scripts"`
	Loaded  []string `json:"loaded_on,omitempty"` // addresses

	bare bool
}

func (c *scriptsCommand) run(ctx context.Context, timeout time.Duration) (report, error) {
	found, err := c.list()
	if err != nil || !c.Load {
		return found, err
	}
	client, to, err := c.open(timeout)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	nodes := make(chan string, 1000) // a Cluster's nodes are loaded side by side
	err = eachNode(ctx, client, func(ctx context.Context, node *redis.Client) error {
		for _, s := range found.Scripts {
			sha, err := node.ScriptLoad(ctx, s.Source).Result()
			if err == nil && sha != s.SHA {
				err = fmt.Errorf("the server says that its digest is %s", sha)
			}
			if err != nil {
				return fmt.Errorf("SCRIPT LOAD of %s on %s: %w", s.SHA, node.Options().Addr, err)
			}
		}
		nodes <- node.Options().Addr
		return nil
	})
	close(nodes)
	for addr := range nodes {
		found.Loaded = append(found.Loaded, addr)
	}
	return found, to.explain(err)
}

// samples are a limiter of each algorithm, for which parameters do not matter.
var samples = [][]string{
	{"fixed_window:10/1s"}, {"sliding_window_log:10/1s"}, {"sliding_window_counter:10/1s"}, {"token_bucket:10/1s:burst=10"},
	{"gcra:10/1s:burst=10"}, {"leaky_bucket:10/1s:queue=10"}, {"token_bucket:10/1s:burst=10", "block_after:10/1s:block=1s"},
}

// orSamples is the one limiter with these limits, or without any the samples.
func (l *limits) orSamples() ([]limits, error) {
	if len(l.Limit) > 0 {
		return []limits{*l}, nil
	}
	var limiters []limits
	for _, texts := range samples {
		var sample limits
		for _, text := range texts {
			spec, err := limitspec.Parse(text)
			if err != nil {
				return nil, err
			}
			sample.Limit = append(sample.Limit, spec)
		}
		limiters = append(limiters, sample)
	}
	return limiters, nil
}

// list joins the scripts as the library does.
func (c *scriptsCommand) list() (*listing, error) {
	limiters, err := c.orSamples()
	if err != nil {
		return nil, err
	}
	found := &listing{bare: c.Only != ""}
	known := map[string]bool{}
	add := func(s script) {
		if !known[s.SHA] && (c.Only == "" || c.Only == s.Use) {
			known[s.SHA] = true
			found.Scripts = append(found.Scripts, s)
		}
	}
	for _, l := range limiters {
		var rules []model.Rule
		var texts []string
		for _, spec := range l.Limit {
			rules, texts = append(rules, spec.Rule), append(texts, spec.String())
		}
		s, err := scripts.New(rules)
		if err != nil {
			return nil, err
		}
		add(script{"decide", texts, s.SHA, s.Text})
		add(script{"refund", texts, s.Refund.SHA, s.Refund.Text})
	}
	add(script{"reset", nil, scripts.Reset.SHA, scripts.Reset.Text})
	return found, nil
}

func (l *listing) text(w io.Writer) {
	for n, s := range l.Scripts {
		switch {
		case l.bare:
			fmt.Fprint(w, s.Source)
			continue
		case l.Loaded != nil:
			fmt.Fprintf(w, "%s  %s\n", s.SHA, s.title())
			continue
		case n > 0:
			fmt.Fprintln(w)
		}
		fmt.Fprintf(w, "-- %s\n-- sha1 %s\n%s", s.title(), s.SHA, s.Source)
	}
	if l.Loaded != nil {
		fmt.Fprintf(w, "loaded on %s\n", strings.Join(l.Loaded, ", "))
	}
}

func (s script) title() string {
	return strings.TrimSpace(s.Use + " " + strings.Join(s.Limits, " "))
}
