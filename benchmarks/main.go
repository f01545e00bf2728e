// Command benchmarks measures this library and its peers side by side, in one
// run on one machine and server, and prints ratios: absolute times would tell of
// the machine. Contenders take turns in every round (A B C, C B A, …), so that
// what else the machine does hits all of them; a figure is the median of the
// rounds' ratios.
//
//	go run .                        everything, about ten minutes
//	go run . -quick                 a taste, about a minute; its figures are worth nothing
//	go run . -sections callers,http some of it
//	go run . -update ../docs/performance.md -pictures ../docs
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/signal"
	"slices"
	"strings"
	"syscall"

	"github.com/redislimiter/go-redislimiter/benchmarks/internal/web"
)

func main() {
	log.SetFlags(0)
	if web.ServeIfChild() {
		return
	}
	s, err := parse(os.Args[1:])
	if err == nil {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		defer stop()
		err = run(ctx, s, os.Stdout)
	}
	if err != nil {
		log.Fatal("benchmarks: ", err)
	}
}

// A section is a part of the run that can be asked for by itself.
type section struct {
	name string
	run  func(*bench, context.Context) error
}

var sections = []section{
	{"callers", (*bench).callers},
	{"refused", (*bench).refusedKey},
	{"memory", (*bench).memory},
	{"scripts", (*bench).scriptTimes},
	{"bytes", (*bench).bytes},
	{"growth", (*bench).growth},
	{"arrivals", (*bench).arrivals},
	{"http", (*bench).profiles},
}

func run(ctx context.Context, s *settings, out io.Writer) error {
	var report bytes.Buffer
	b, err := newBench(ctx, s, io.MultiWriter(out, &report))
	if err != nil {
		return err
	}
	defer b.close()
	if err := b.describe(ctx); err != nil {
		return err
	}
	for _, section := range sections {
		if len(s.sections) > 0 && !slices.Contains(s.sections, section.name) {
			continue
		}
		if err := section.run(b, ctx); err != nil {
			return fmt.Errorf("%s: %w", section.name, err)
		}
	}
	b.targets()
	if s.pictures != "" {
		if err := b.draw(); err != nil {
			return err
		}
	}
	if s.update != "" {
		return replaceMeasured(s.update, report.String())
	}
	return nil
}

// replaceMeasured puts the report between two marks in a document.
func replaceMeasured(path, report string) error {
	const begin, end = "<!-- measured -->", "<!-- /measured -->"
	text, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(text), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		return fmt.Errorf("%s has no lines %s and %s to write between", path, begin, end)
	}
	return os.WriteFile(path, []byte(before+begin+"\n"+report+"\n"+end+after), 0o644)
}

// parse reads the flags.
func parse(args []string) (*settings, error) {
	s := full()
	flags := flag.NewFlagSet("benchmarks", flag.ExitOnError)
	quick := flags.Bool("quick", false, "a taste of everything in about a minute")
	rounds := flags.Int("rounds", 0, "rounds, of which the median counts")
	lasting := flags.Duration("for", 0, "how long a turn takes")
	names := flags.String("sections", "", "comma-separated: "+sectionNames()+" (all)")
	redis := flags.String("redis", "", "host:port of an empty Redis 8.0; everything in it is deleted (a container)")
	huge := flags.Bool("huge", false, "growth up to 10^7 keys of each: 4 GB and four minutes more")
	pool := flags.Int("pool", s.pool, "connections of each limiter on Redis")
	update := flags.String("update", "", "document to write the tables into")
	pictures := flags.String("pictures", "", "directory to write the pictures into")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if *quick {
		s = taste()
	}
	if *rounds > 0 {
		s.rounds = *rounds
	}
	if *lasting > 0 {
		s.lasting = *lasting
	}
	if *names != "" {
		s.sections = strings.Split(*names, ",")
	}
	for _, name := range s.sections {
		if !slices.ContainsFunc(sections, func(x section) bool { return x.name == name }) {
			return nil, fmt.Errorf("no section %q; there are %s", name, sectionNames())
		}
	}
	if *huge {
		s.population = append(s.population, 10_000_000)
	}
	s.pool = *pool
	s.redis, s.update, s.pictures = *redis, *update, *pictures
	return s, nil
}

func sectionNames() string {
	var names []string
	for _, section := range sections {
		names = append(names, section.name)
	}
	return strings.Join(names, ",")
}
