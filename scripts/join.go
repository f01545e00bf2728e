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
	names  []string // of the hash fields, as ARGV numbers them
	letter string
	place  int // among the rules of the same algorithm
	first  int // index in ARGV of its first field name
}

// A joiner collects parts and what they need.
type joiner struct {
	parts  []part
	names  []string // ARGV: field names of all rules
	params []string // ARGV: parameters of all rules
	places map[string]int
}

func (j *joiner) add(rule model.Rule) error {
	spec, err := specOf(rule)
	if err != nil {
		return err
	}
	if j.places == nil {
		j.places = map[string]int{}
	}
	p := part{source: read(spec.file), letter: spec.letter, place: j.places[spec.letter], first: len(j.names) + 1}
	j.places[spec.letter]++
	if p.hash {
		p.names = spec.fieldNames(p.fields, p.place)
		j.names = append(j.names, p.names...)
	}
	for _, n := range spec.params {
		j.params = append(j.params, strconv.FormatInt(n, 10))
	}
	j.parts = append(j.parts, p)
	return nil
}

func (j *joiner) hashed() bool {
	return slices.ContainsFunc(j.parts, func(p part) bool { return p.hash })
}

// segments names the keys that one request touches, in the order of KEYS.
func (j *joiner) segments() []string {
	var all []string
	if j.hashed() {
		all = append(all, "h")
	}
	for _, p := range j.parts {
		if !p.hash {
			all = append(all, p.letter+strconv.Itoa(p.place))
		}
	}
	return all
}

// join replaces the driver's --@ lines.
func (j *joiner) join() string {
	text, err := files.ReadFile("driver.lua")
	if err != nil {
		panic(err)
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		trimmed := strings.TrimSpace(line)
		section, marked := strings.CutPrefix(trimmed, "--@")
		switch {
		case marked:
			b.WriteString(j.section(section))
		case strings.HasPrefix(trimmed, "--"): // the server needs no comments
		default:
			b.WriteString(line)
		}
	}
	return b.String()
}

func (j *joiner) section(name string) string {
	switch name {
	case "functions":
		return j.functions()
	case "params":
		return j.locals()
	case "load":
		return j.load()
	case "reply":
		return j.reply()
	case "store":
		return j.store()
	}
	var b strings.Builder
	for i, p := range j.parts {
		b.WriteString(number(p.sections[name], i))
	}
	return b.String()
}

func (j *joiner) functions() string {
	functions := read("functions.lua").sections
	var b strings.Builder
	var have []string
	need := []string{}
	if j.hashed() {
		need = append(need, "expire")
	}
	for _, p := range j.parts {
		need = append(need, p.uses...)
	}
	for _, name := range need {
		if !slices.Contains(have, name) {
			have = append(have, name)
			b.WriteString(functions[name])
		}
	}
	return b.String()
}

// locals reads the parameters and the shape of a call.
func (j *joiner) locals() string {
	var b strings.Builder
	at := len(j.names) + 1
	for i, p := range j.parts {
		for _, param := range p.params {
			fmt.Fprintf(&b, "local %s%d = tonumber(ARGV[%d])\n", param, i+1, at)
			at++
		}
		if p.hash {
			fmt.Fprintf(&b, "local name_stamp%d = ARGV[%d]\n", i+1, p.first)
		}
	}
	replies := 1
	for _, p := range j.parts {
		replies += len(p.reply)
	}
	fmt.Fprintf(&b, "local first, width, replies = %d, %d, %d\n", at, len(j.segments()), replies)
	return b.String()
}

// load binds the keys of a request and reads the hash.
func (j *joiner) load() string {
	var b strings.Builder
	at := 1
	if j.hashed() {
		b.WriteString("local key = KEYS[request * width + 1]\nlocal hash = redis.pcall(\"HMGET\", key")
		for i := range j.names {
			fmt.Fprintf(&b, ", ARGV[%d]", i+1)
		}
		b.WriteString(")\nif hash.err then\nfailed = hash\nbreak\nend\n")
		at++
	}
	for i, p := range j.parts {
		if !p.hash {
			fmt.Fprintf(&b, "local key%d = KEYS[request * width + %d]\n", i+1, at)
			at++
			continue
		}
		for f, field := range p.fields {
			fmt.Fprintf(&b, "local %s%d = hash[%d]\n", field, i+1, p.first+f)
		}
	}
	return b.String()
}

func (j *joiner) reply() string {
	var b strings.Builder
	at := 2
	for i, p := range j.parts {
		for _, name := range p.reply {
			fmt.Fprintf(&b, "reply[base + %d] = %s%d\n", at, name, i+1)
			at++
		}
	}
	return b.String()
}

// store writes the hash: all rules in one call, and its life after it.
func (j *joiner) store() string {
	if !j.hashed() {
		return ""
	}
	var b strings.Builder
	b.WriteString("local done = redis.pcall(\"HSET\", key")
	for i, p := range j.parts {
		for f := range p.names {
			fmt.Fprintf(&b, ", ARGV[%d], %s%d", p.first+f, p.fields[f], i+1)
		}
	}
	b.WriteString(")\nif type(done) == \"table\" then\nfailed = done\nbreak\nend\n")
	b.WriteString(j.section("stored"))
	b.WriteString("failed = expire(key, ttl)\nif failed then\nbreak\nend\n")
	return b.String()
}
