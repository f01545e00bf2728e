package scripts

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// A form is how many bytes each number of a stored text takes.
type form struct {
	widths []int
	when   string // Lua: whether the numbers fit; empty if they always do
}

// parseForm reads a --@form line: widths, and a condition behind an if.
func parseForm(words []string) form {
	var f form
	for i, word := range words {
		if word == "if" {
			f.when = strings.Join(words[i+1:], " ")
			break
		}
		n, err := strconv.Atoi(word)
		if err != nil {
			panic(err) // a file that is embedded cannot be wrong
		}
		f.widths = append(f.widths, n)
	}
	return f
}

func (f form) size() int {
	n := 0
	for _, width := range f.widths {
		n += width
	}
	return n
}

// layout is the form for the struct library.
func (f form) layout() string {
	text := "<"
	for _, width := range f.widths {
		text += fmt.Sprint("I", width)
	}
	return text
}

// variables are the Lua variables of the fields.
func (s *source) variables() string { return strings.Join(s.fields, "$, ") + "$" }

// digits is the text where there is no struct library.
func (s *source) digits(number string) string {
	return strings.TrimSuffix(strings.Repeat(number+":", len(s.fields)), ":")
}

// unpack takes text$, if there is one, into the fields. They stay nil if it is not
// such a text.
func (s *source) unpack() string {
	var b strings.Builder
	fmt.Fprintf(&b, "local %s\nif text$ and struct then\n", s.variables())
	for i, f := range s.forms {
		fmt.Fprintf(&b, "%sif #text$ == %d then\n%s = struct.unpack(%q, text$)\n", strings.Repeat("else", min(i, 1)), f.size(), s.variables(), f.layout())
	}
	fmt.Fprintf(&b, "end\nelseif text$ then\n%s = string.match(text$, \"^%s$\")\n", s.variables(), s.digits("(%d+)"))
	for _, field := range s.fields {
		fmt.Fprintf(&b, "%[1]s$ = tonumber(%[1]s$)\n", field)
	}
	b.WriteString("end\n")
	return b.String()
}

// pack makes text$ of the fields.
func (s *source) pack() string {
	var b strings.Builder
	fmt.Fprintf(&b, "if not struct then\ntext$ = string.format(%q, %s)\n", s.digits("%.0f"), s.variables())
	for _, f := range s.forms {
		if f.when == "" {
			b.WriteString("else\n")
		} else {
			fmt.Fprintf(&b, "elseif %s then\n", f.when)
		}
		fmt.Fprintf(&b, "text$ = struct.pack(%q, %s)\n", f.layout(), s.variables())
	}
	b.WriteString("end\n")
	return b.String()
}

// numbers reads such a text, in whatever form.
func (s *source) numbers(text string) ([]int64, bool) {
	var all []int64
	for digits := range strings.SplitSeq(text, ":") {
		if number, err := strconv.ParseUint(digits, 10, 56); err == nil {
			all = append(all, int64(number))
		}
	}
	if len(all) == len(s.fields) && strings.Count(text, ":") == len(all)-1 {
		return all, true
	}
	i := slices.IndexFunc(s.forms, func(f form) bool { return f.size() == len(text) })
	if i < 0 {
		return nil, false
	}
	all = nil
	for _, width := range s.forms[i].widths {
		number := int64(0)
		for i := range width {
			number |= int64(text[i]) << (8 * i)
		}
		all, text = append(all, number), text[width:]
	}
	return all, true
}
