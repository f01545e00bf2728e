package scripts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/redislimiter/go-redislimiter/internal/model"
)

// A part is one rule's share of a script.
type part struct {
	source
	names  []string // of its hash fields
	letter string
	place  int // among the rules of the same algorithm
	number int // in the script, in place of each $
	first  int // index in ARGV of its first field name
}

// A group is the rules of one limiter in a script: those that are asked about
// one id.
type group struct {
	parts  []part
	names  []string // ARGV: field names of all rules, then
	params []string // their parameters
	args   int      // index in ARGV of the first of these
}

// newGroup puts rules together. numbers and args are how many rules and
// arguments other groups of the script have before it.
func newGroup(rules []model.Rule, numbers, args int) (*group, error) {
	g := &group{args: args + 1}
	places := map[string]int{}
	for i, rule := range rules {
		spec, err := specOf(rule, len(rules) == 1)
		if err != nil {
			return nil, err
		}
		p := part{source: read(spec.file), letter: spec.letter, place: places[spec.letter], number: numbers + i + 1, first: g.args + len(g.names)}
		places[spec.letter]++
		if p.hash {
			p.names = spec.fieldNames(p.fields, p.place)
			g.names = append(g.names, p.names...)
		}
		for _, n := range spec.params {
			g.params = append(g.params, strconv.FormatInt(n, 10))
		}
		g.parts = append(g.parts, p)
	}
	return g, nil
}

func (g *group) hashed() bool {
	return slices.ContainsFunc(g.parts, func(p part) bool { return p.hash })
}

// punishes reports whether a refusal may be written, so that the charge's
// sections run without units.
func (g *group) punishes() bool {
	return slices.ContainsFunc(g.parts, func(p part) bool { return p.sections["refuse"] != "" })
}

// segments names the keys that one request touches, in the order of KEYS.
func (g *group) segments() []string {
	var all []string
	if g.hashed() {
		all = append(all, "h")
	}
	for _, p := range g.parts {
		if !p.hash {
			all = append(all, p.letter+strconv.Itoa(p.place))
		}
	}
	return all
}

// width is how many integers answer one request.
func (g *group) width() int {
	n := 1
	for _, p := range g.parts {
		n += len(p.reply)
	}
	return n
}

// sections writes a section of every rule.
func (g *group) sections(name string) string {
	var b strings.Builder
	for _, p := range g.parts {
		text := strings.ReplaceAll(p.source.sections[name], "$", strconv.Itoa(p.number))
		if name == "charge" && !p.hash && g.punishes() {
			text = "if units > 0 then\n" + text + "end\n"
		}
		b.WriteString(text)
	}
	return b.String()
}

// locals reads the parameters.
func (g *group) locals() string {
	var b strings.Builder
	at := g.args + len(g.names)
	for _, p := range g.parts {
		for _, param := range p.params {
			fmt.Fprintf(&b, "local %s%d = tonumber(ARGV[%d])\n", param, p.number, at)
			at++
		}
		if p.hash {
			fmt.Fprintf(&b, "local name_stamp%d = ARGV[%d]\n", p.number, p.first)
		}
	}
	return b.String()
}

// next is the index in ARGV of the first argument after the group's.
func (g *group) next() int { return g.args + len(g.names) + len(g.params) }

// load binds the keys of a request, which begin at KEYS[base + 1], and reads
// the hash.
func (g *group) load(base string) string {
	var b strings.Builder
	at := 1
	if g.hashed() {
		fmt.Fprintf(&b, "key = KEYS[%s + 1]\nhash = redis.pcall(\"HMGET\", key", base)
		for i := range g.names {
			fmt.Fprintf(&b, ", ARGV[%d]", g.args+i)
		}
		b.WriteString(")\nif hash.err then\nfailed = hash\nbreak\nend\n")
		at++
	}
	for _, p := range g.parts {
		if !p.hash {
			fmt.Fprintf(&b, "local key%d = KEYS[%s + %d]\n", p.number, base, at)
			at++
			continue
		}
		for f, field := range p.fields {
			fmt.Fprintf(&b, "local %s%d = hash[%d]\n", field, p.number, p.first-g.args+1+f)
		}
	}
	return b.String()
}

// fit lowers what is granted to what every rule has room for.
func (g *group) fit() string {
	var b strings.Builder
	b.WriteString("if cost > 0 then\n")
	for _, p := range g.parts {
		fmt.Fprintf(&b, "if floor(room%d / cost) < fit then\nfit = floor(room%d / cost)\nend\n", p.number, p.number)
	}
	b.WriteString("if fit < 0 then\nfit = 0\nend\nend\n")
	return b.String()
}

// reply writes what every rule stood at behind reply[base + 1].
func (g *group) reply() string {
	var b strings.Builder
	at := 2
	for _, p := range g.parts {
		for _, name := range p.reply {
			fmt.Fprintf(&b, "reply[base + %d] = %s%d\n", at, name, p.number)
			at++
		}
	}
	return b.String()
}

// store writes the hash: all rules in one call, and its life after it.
func (g *group) store() string {
	if !g.hashed() {
		return ""
	}
	return "local done = redis.pcall(" + g.write() + ")\nif type(done) == \"table\" then\nfailed = done\nbreak\nend\n" +
		g.sections("stored") + "failed = expire(key, ttl)\nif failed then\nbreak\nend\n"
}

// save writes the hash if it is there, and leaves its life alone.
func (g *group) save() string {
	if !g.hashed() {
		return ""
	}
	var there []string
	for i := range g.names {
		there = append(there, fmt.Sprintf("hash[%d]", i+1))
	}
	return "if " + strings.Join(there, " or ") + " then\nredis.call(" + g.write() + ")\n" + g.sections("stored") + "end\n"
}

func (g *group) write() string {
	var b strings.Builder
	b.WriteString("\"HSET\", key")
	for _, p := range g.parts {
		for f := range p.names {
			fmt.Fprintf(&b, ", ARGV[%d], %s%d", p.first+f, p.fields[f], p.number)
		}
	}
	return b.String()
}
