package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"sync"
	"text/tabwriter"
	"time"
)

type topCommand struct {
	URLs  []string `arg:"" name:"url" help:"Where an instance of the service serves redislimiter.TopRefused, such as http://10.0.0.7:9000/refused."`
	Count int      `default:"20" help:"How many keys to show."`
}

// Help is what --help says about the command.
func (*topCommand) Help() string {
	return `Adds up what several instances of a service say about the keys that they refuse most. Counts are at most their +/- too high. Keys are shown as the service serves them: hashed, unless it was told otherwise. If some instances do not answer, the others are shown, and the exit code is 1.`
}

// Validate names what is wrong before anything is sent.
func (c *topCommand) Validate() error {
	if c.Count < 1 {
		return fmt.Errorf("--count: %d, must be at least 1", c.Count)
	}
	for n, text := range c.URLs {
		u, err := url.Parse(text)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" {
			return fmt.Errorf("url %d is not one of http:// or https://", n+1)
		}
	}
	return nil
}

// An answer is what one instance serves, or the sum of several.
type answer struct {
	Refused []refused `json:"refused"`
	Total   uint64    `json:"total"` // refusals, also of keys that are not shown
	// Unlisted bounds how often a key was refused that is not listed.
	Unlisted uint64 `json:"unlisted"`
}

// A refused is a key that was refused. The count is at most Error too high.
type refused struct {
	Name  string `json:"name"`
	Key   string `json:"key"`
	Count uint64 `json:"count"`
	Error uint64 `json:"error"`
}

func (c *topCommand) run(ctx context.Context, _ time.Duration) (report, error) {
	answers, errs := make([]answer, len(c.URLs)), make([]error, len(c.URLs))
	var wg sync.WaitGroup
	for n, text := range c.URLs {
		wg.Go(func() { answers[n], errs[n] = ask(ctx, text) })
	}
	wg.Wait()
	if !slices.Contains(errs, nil) {
		return nil, errors.Join(errs...)
	}
	sum := merge(answers)
	sum.Refused = sum.Refused[:min(c.Count, len(sum.Refused))]
	return sum, errors.Join(errs...)
}

// largest bounds what an instance may answer.
const largest = 16 << 20

func ask(ctx context.Context, text string) (answer, error) {
	var a answer
	u, err := url.Parse(text)
	if err != nil {
		return a, err
	}
	// Credentials stand in front of a host, and tokens may in a query.
	where := (&url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}).String()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, text, nil)
	if err != nil {
		return a, fmt.Errorf("%s: %w", where, err)
	}
	request.Header.Set("Accept", "application/json")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		if wrapped := (*url.Error)(nil); errors.As(err, &wrapped) {
			err = wrapped.Err // the URL is named here
		}
		return a, fmt.Errorf("%s: %w", where, err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return a, fmt.Errorf("%s: answers %d", where, response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, largest))
	if err == nil {
		err = json.Unmarshal(body, &a)
	}
	if err == nil && a.Refused == nil {
		err = errors.New(`there is no "refused"`)
	}
	if err != nil {
		return answer{}, fmt.Errorf("%s: not what TopRefused serves: %w", where, err)
	}
	return a, nil
}

// merge adds answers up, the most refused first. A key that an instance does
// not list may have been refused there as often as its Unlisted says.
func merge(answers []answer) *answer {
	type id struct{ name, key string }
	sums := map[id]refused{}
	total, unlisted := uint64(0), uint64(0)
	for _, a := range answers {
		total += a.Total
		unlisted += a.Unlisted
	}
	for _, a := range answers {
		for _, r := range a.Refused {
			sum, ok := sums[id{r.Name, r.Key}]
			if !ok {
				sum.Count, sum.Error = unlisted, unlisted
			}
			sums[id{r.Name, r.Key}] = refused{r.Name, r.Key, sum.Count + r.Count - a.Unlisted, sum.Error + r.Error - a.Unlisted}
		}
	}
	all := make([]refused, 0, len(sums))
	for _, r := range sums {
		all = append(all, r)
	}
	slices.SortFunc(all, func(a, b refused) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Name, b.Name), cmp.Compare(a.Key, b.Key))
	})
	return &answer{all, total, unlisted}
}

func (a *answer) text(w io.Writer) {
	if len(a.Refused) == 0 {
		fmt.Fprintln(w, "Nobody was refused.")
		return
	}
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "REFUSED\t+/-\tNAME\tKEY")
	for _, r := range a.Refused {
		// %q: what is in a key must not reach the terminal as it is.
		fmt.Fprintf(table, "%d\t%d\t%s\t%q\n", r.Count, r.Error, printable(r.Name), r.Key)
	}
	_ = table.Flush() // w remembers its error
	fmt.Fprintf(w, "%d refusals in all\n", a.Total)
}

// printable quotes a name that no limiter can have.
func printable(name string) string {
	if checkName(name) != nil {
		return fmt.Sprintf("%q", name)
	}
	return name
}
