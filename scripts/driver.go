package scripts

import (
	"fmt"
	"strings"
)

// join replaces the --@ lines of a driver for the requests of one limiter.
func join(driver string, g *group) string {
	return expand(driver, func(section string) string {
		switch section {
		case "params":
			return g.locals() + fmt.Sprintf("local first, width, replies = %d, %d, %d\n", g.next(), len(g.segments()), g.width())
		case "load":
			return g.load("request * width")
		case "fit":
			return g.fit()
		case "reply":
			return reply(g)
		case "store":
			return g.store()
		case "save":
			return g.save()
		}
		return g.sections(section)
	})
}

// reply writes what every rule stood at. The first request's answer makes a table
// that is large enough for it and the time: growing one is expensive.
func reply(g *group) string {
	return "if request == 0 then\nreply = { fit, " + strings.Join(append(g.values(), "now"), ", ") + " }\nelse\nreply[base + 1] = fit\n" +
		appended(g) + "end\n"
}

// appended writes what every rule stood at behind reply[base + 1].
func appended(g *group) string {
	var b strings.Builder
	for i, value := range g.values() {
		fmt.Fprintf(&b, "reply[base + %d] = %s\n", i+2, value)
	}
	return b.String()
}

// joinAll replaces the --@ lines of the driver that charges several limiters
// together. Each group's turn sets what its sections read.
func joinAll(groups []*group) string {
	costs := groups[len(groups)-1].next()
	turn := func(i int) string {
		return fmt.Sprintf("cost = tonumber(ARGV[%d])\nneed = cost > 0 and cost or 1\n", costs+i)
	}
	return expand("all.lua", func(section string) string {
		var b strings.Builder
		keys, replies := 0, 0
		for i, g := range groups {
			hash := ""
			if g.hashed() {
				hash = fmt.Sprintf("key = KEYS[%d]\n", keys+1)
			}
			switch section {
			case "params":
				b.WriteString(g.locals())
			case "check":
				b.WriteString(turn(i) + "fit = 1\n" + g.load(fmt.Sprint(keys)) + g.sections("check") + g.fit() +
					fmt.Sprintf("fits[%d] = fit\nif fit < 1 then\nall = 0\nend\n", i+1))
			case "reply":
				b.WriteString(turn(i) + fmt.Sprintf("base = %d\nunits = all * cost\n", replies) + g.sections("look") +
					fmt.Sprintf("reply[base + 1] = fits[%d] > all and -2 or all\n", i+1) + appended(g))
			case "charge":
				b.WriteString(turn(i) + hash + fmt.Sprintf("fit, units, punished, ttl, spare = fits[%d], all * cost, false, 1, 0\n", i+1) +
					g.sections("refuse") + "if units > 0 or punished then\n" + g.sections("charge") + g.store() + "end\n")
			}
			keys += len(g.segments())
			replies += g.width()
		}
		if section == "reply" {
			fmt.Fprintf(&b, "reply[%d] = now\n", replies+1)
		}
		return b.String()
	})
}

// expand copies a driver with its --@ lines replaced and its comments left out.
func expand(driver string, section func(name string) string) string {
	text, err := files.ReadFile(driver)
	if err != nil {
		panic(err) // a file that is embedded cannot be missing
	}
	var b strings.Builder
	for line := range strings.Lines(string(text)) {
		trimmed := strings.TrimSpace(line)
		name, marked := strings.CutPrefix(trimmed, "--@")
		switch {
		case marked:
			b.WriteString(section(name))
		case strings.HasPrefix(trimmed, "--"): // the server needs no comments
		default:
			b.WriteString(line)
		}
	}
	return indent(b.String())
}

// indent lays the joined text out, since operators read it in MONITOR, in
// audits and in error messages that name a line.
func indent(text string) string {
	var b strings.Builder
	depth := 0
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		word := strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '(' || r == ',' })[0]
		closes := word == "end" || word == "else" || word == "elseif" || word == "until" || word == "}"
		if closes {
			depth--
		}
		b.WriteString(strings.Repeat("  ", max(depth, 0)) + line + "\n")
		code, _, _ := strings.Cut(line, " --")
		opens := strings.HasSuffix(code, " then") || strings.HasSuffix(code, " do") || word == "else" || word == "repeat" ||
			strings.HasPrefix(code, "local function")
		if opens {
			depth++
		}
	}
	return b.String()
}
