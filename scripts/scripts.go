// Package scripts holds the Lua that runs inside Redis, one file for each
// algorithm, and joins the files of a limiter's rules into one script.
//
// The files are the place to read how state is stored and what a call costs.
// driver.lua says how they are put together.
package scripts

import (
	"crypto/sha1"
	"embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/redislimiter/go-redislimiter/internal/model"
)

//go:embed *.lua
var files embed.FS

// A Script is the script for one list of rules. Limiters with the same
// algorithms in the same order share its text, and so its place in the
// server's cache: parameters travel as arguments.
type Script struct {
	Text string
	SHA  string // by which EVALSHA knows it

	// Segments is the part of each Redis key that tells what is stored
	// there, in the order of KEYS. The first is the hash, if there is one.
	Segments []string
	// Parts names what is stored of each rule, in the order of the rules: an
	// algorithm's letter and the rule's place among those of its algorithm.
	Parts []string
	// Args are the first arguments of every call: parameters.
	Args []string

	// Refund is the script that gives back. It takes the same keys and
	// first arguments.
	Refund *Script

	rules   []model.Rule
	replies []int // integers that each rule replies with
}

// New joins the script for the rules.
func New(rules []model.Rule) (*Script, error) {
	g, err := newGroup(rules, 0, 0)
	if err != nil {
		return nil, err
	}
	s := &Script{rules: rules, Segments: g.segments(), Args: g.params, Refund: &Script{}}
	for _, p := range g.parts {
		s.replies = append(s.replies, len(p.reply))
		s.Parts = append(s.Parts, p.name())
	}
	s.setText(join("driver.lua", g))
	s.Refund.setText(join("refund.lua", g))
	return s, nil
}

// joints remembers what All has joined, by the digests of the parts. There are
// few: they depend on the algorithms only, not on limiters or parameters.
var joints = struct {
	sync.Mutex
	scripts map[string]*Script
}{scripts: map[string]*Script{}}

const maxJoints = 256

// All joins the script that charges several limiters together. Its arguments
// are those of each, in order, and then their costs.
func All(each []*Script) (*Script, error) {
	var digests strings.Builder
	for _, s := range each {
		digests.WriteString(s.SHA)
	}
	joints.Lock()
	defer joints.Unlock()
	if s, ok := joints.scripts[digests.String()]; ok {
		return s, nil
	}
	var groups []*group
	numbers, args := 0, 0
	for _, s := range each {
		g, err := newGroup(s.rules, numbers, args)
		if err != nil {
			return nil, err
		}
		numbers += len(s.rules)
		args += len(s.Args)
		groups = append(groups, g)
	}
	all := &Script{}
	all.setText(joinAll(groups))
	if len(joints.scripts) < maxJoints {
		joints.scripts[digests.String()] = all
	}
	return all, nil
}

func (s *Script) setText(text string) {
	s.Text = text
	sum := sha1.Sum([]byte(text))
	s.SHA = hex.EncodeToString(sum[:])
}

// Reset deletes its KEYS.
var Reset = plain("reset.lua")

// Permissions tells what the ACL does not allow.
var Permissions = plain("permissions.lua")

// plain is a script that needs no joining.
func plain(name string) *Script {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // a file that is embedded cannot be missing
	}
	s := &Script{}
	s.setText(string(text))
	return s
}

// Width is how many integers answer one request.
func (s *Script) Width() int {
	n := 1
	for _, r := range s.replies {
		n += r
	}
	return n
}

// Decode reads the answer to request i of a call out of its reply. It reports
// false where the script says that it did not decide that request.
func (s *Script) Decode(reply []int64, i int, t *model.Taken) (bool, error) {
	width := s.Width()
	if len(reply) < (i+1)*width+1 {
		return false, fmt.Errorf("unexpected reply of %d integers", len(reply))
	}
	return s.DecodeAt(reply, i*width, t), nil
}

// DecodeAt reads the answer that begins at reply[at].
func (s *Script) DecodeAt(reply []int64, at int, t *model.Taken) bool {
	t.Now = reply[len(reply)-1]
	t.Granted = reply[at]
	at++
	for j, n := range s.replies {
		t.Views[j] = view(s.rules[j], reply[at:at+n])
		at += n
	}
	switch t.Granted {
	case undecided:
		return false
	case spared:
		t.Granted, t.Spared = 0, true
	}
	return true
}

// What a script replies in place of how many requests it granted.
const (
	undecided = -1 // an error kept it from deciding
	spared    = -2 // its rules had room, but those of another limiter had not
)

// A source is one .lua file, cut into its sections.
type source struct {
	hash     bool     // state in the shared hash, or in a key of its own
	fields   []string // the numbers that are stored as one text
	forms    []form   // how
	params   []string
	reply    []string
	sections map[string]string
}

var directive = regexp.MustCompile(`(?m)^\s*--@(\w+)(.*)\n`)

// shared replaces lines --+ name by what several files have in common.
func (s *source) shared(text string) string {
	return inclusion.ReplaceAllStringFunc(text, func(line string) string {
		switch name := inclusion.FindStringSubmatch(line)[1]; name {
		case "unpack":
			return s.unpack()
		case "pack":
			return s.pack()
		default:
			return s.shared(cut("shared.lua").sections[name])
		}
	})
}

var inclusion = regexp.MustCompile(`(?m)^\s*--\+ (\w+)\n`)

// read cuts a file and puts in what it shares with others.
func read(name string) source {
	src := cut(name)
	for section, text := range src.sections {
		src.sections[section] = src.shared(text)
	}
	return src
}

// cut cuts a file at its --@ lines. The part before the first one is the
// documentation, which the server does not need.
func cut(name string) source {
	text, err := files.ReadFile(name)
	if err != nil {
		panic(err) // a file that is embedded cannot be missing
	}
	src := source{sections: map[string]string{}}
	marks := directive.FindAllSubmatchIndex(text, -1)
	for i, m := range marks {
		end := len(text)
		if i+1 < len(marks) {
			end = marks[i+1][0]
		}
		word, words := string(text[m[2]:m[3]]), strings.Fields(string(text[m[4]:m[5]]))
		switch word {
		case "hash":
			src.hash = true
		case "fields":
			src.fields = words
		case "form":
			src.forms = append(src.forms, parseForm(words))
		case "params":
			src.params = words
		case "reply":
			src.reply = words
		default:
			src.sections[word] = string(text[m[1]:end])
		}
	}
	return src
}
