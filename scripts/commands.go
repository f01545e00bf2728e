package scripts

import (
	"maps"
	"regexp"
	"slices"
)

// command finds what a script calls. Names of commands are written out.
var command = regexp.MustCompile(`call\("([A-Z]+)"`)

// Commands lists the Redis commands that a limiter's scripts may call, the rare ones included: what the ACL has to
// allow.
func (s *Script) Commands() []string {
	found := map[string]bool{}
	for _, text := range []string{s.Text, s.Refund.Text, Reset.Text} {
		for _, m := range command.FindAllStringSubmatch(text, -1) {
			found[m[1]] = true
		}
	}
	return slices.Sorted(maps.Keys(found))
}
