package scripts

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/redislimiter/go-redislimiter/internal/model"
)

// A part is one rule's share of a script.
type part struct {
	source
	letter string
	place  int // among the rules of the same algorithm
	number int // in the script, in place of each $
}

// name is what is known of it: its field in the hash, or the segment of its own
// key. It is a short integer for a field, which Redis stores in two bytes: the
// algorithm's digit and the rule's place.
func (p *part) name() string { return p.letter + strconv.Itoa(p.place) }

// A group is the rules of one limiter in a script: those that are asked about
// one id.
type group struct {
	parts  []part
	params []string // of all rules
	args   int      // index in ARGV of the first parameter
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
		p := part{source: read(spec.file), letter: spec.letter, place: places[spec.letter], number: numbers + i + 1}
		places[spec.letter]++
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
			all = append(all, p.name())
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
		text := number(p.source.sections[name], p.number)
		if name == "charge" && !p.hash && g.punishes() {
			text = "if units > 0 then\n" + text + "end\n"
		}
		b.WriteString(text)
	}
	return b.String()
}

// number puts the rule's number in place of each $ that follows a name. Others
// end patterns.
func number(text string, n int) string {
	return numbered.ReplaceAllString(text, "${1}"+strconv.Itoa(n))
}

var numbered = regexp.MustCompile(`(\w)\$`)

// locals reads the parameters, and finds the library that packs what is stored.
func (g *group) locals() string {
	var b strings.Builder
	at := g.args
	if slices.ContainsFunc(g.parts, func(p part) bool { return p.fields != nil }) {
		b.WriteString("local struct = rawget(_G, \"struct\")\n")
	}
	for _, p := range g.parts {
		for _, param := range p.params {
			fmt.Fprintf(&b, "local %s%d = ARGV[%d] + 0\n", param, p.number, at)
			at++
		}
	}
	return b.String()
}

// next is the index in ARGV of the first argument after the group's.
func (g *group) next() int { return g.args + len(g.params) }

// load binds the keys of a request, which begin at KEYS[base + 1], and reads
// the hash.
func (g *group) load(base string) string {
	var b strings.Builder
	at := 1
	if g.hashed() {
		fmt.Fprintf(&b, "key = KEYS[%s + 1]\nhash = pcall(\"HMGET\", key", base)
		var found []string
		texts := ""
		for _, p := range g.parts {
			if p.hash {
				fmt.Fprintf(&b, ", %q", p.name())
				found = append(found, fmt.Sprintf("text%d", p.number))
				texts += fmt.Sprintf("local text%d = hash[%d]\n", p.number, len(found))
			}
		}
		b.WriteString(")\nif hash.err then\nfailed = hash\nbreak\nend\n" + texts)
		fmt.Fprintf(&b, "local found%d = %s\n", g.parts[0].number, strings.Join(found, " or "))
		at++
	}
	for _, p := range g.parts {
		if !p.hash {
			fmt.Fprintf(&b, "local key%d = KEYS[%s + %d]\n", p.number, base, at)
			at++
		}
	}
	return b.String()
}

// fit lowers what is granted to what every rule has room for.
func (g *group) fit() string {
	var b strings.Builder
	b.WriteString("if cost > 0 then\nlocal room = fit * cost\n")
	for _, p := range g.parts {
		fmt.Fprintf(&b, "if room%d < room then\nroom = room%d\nend\n", p.number, p.number)
	}
	b.WriteString("if room < fit * cost then\nfit = room / cost\nfit = fit > 0 and fit - fit %% 1 or 0\nend\nend\n")
	return strings.ReplaceAll(b.String(), "%%", "%")
}

// values are what every rule stood at, as the reply has them.
func (g *group) values() []string {
	var all []string
	for _, p := range g.parts {
		for _, name := range p.reply {
			all = append(all, name+strconv.Itoa(p.number))
		}
	}
	return all
}

// store writes the hash: all rules in one call, and its life after it, which is
// never made shorter: the hash may also be that of a limiter with other rules. It
// is GT where a life is expected and NX where not, and the other one if that was
// wrong. A hash that cannot get an end of its life must not stay: it would never
// be forgotten.
func (g *group) store() string {
	if !g.hashed() {
		return ""
	}
	var b strings.Builder
	packs, fields := "", ""
	for _, p := range g.parts {
		if p.hash {
			if fields == "" {
				b.WriteString(number("local till = till$\n", p.number))
			} else {
				b.WriteString(number("if till$ > till then\ntill = till$\nend\n", p.number))
			}
			packs += number("till$ = till\n"+p.pack(), p.number)
			fields += fmt.Sprintf(", %q, text%d", p.name(), p.number)
		}
	}
	b.WriteString("local renew = now + ttl > till * 1000000\n" +
		"if renew then\ntill = now + ttl + spare + 999999\ntill = (till - till % 1000000) / 1000000\nend\n" + packs)
	b.WriteString("local done = pcall(\"HSET\", key" + fields + ")\nif type(done) == \"table\" then\nfailed = done\nbreak\nend\n")
	b.WriteString(number(`if renew then
local life = till * 1000 - (now - now % 1000) / 1000 + 1
done = pcall("PEXPIRE", key, life, found$ and "GT" or "NX")
if done == 0 then
done = pcall("PEXPIRE", key, life, found$ and "NX" or "GT")
end
if type(done) == "table" then
call("DEL", key)
failed = done
break
end
end
`, g.parts[0].number))
	return b.String()
}

// save writes the hash if it is there.
func (g *group) save() string {
	if !g.hashed() {
		return ""
	}
	charges := ""
	for _, p := range g.parts {
		if p.hash {
			charges += number(p.sections["charge"], p.number)
		}
	}
	return fmt.Sprintf("if found%d then\nunits = 0\nlocal ttl, spare = 1, 0\n", g.parts[0].number) + charges + g.store() + "end\n"
}
