package redislimiter_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Code in the README and the docs is code that compiles: each block stands in an
// example file, line by line.
func TestDocsShowCompiledCode(t *testing.T) {
	var examples strings.Builder
	var files []string
	for _, pattern := range []string{"../*/example*_test.go", "../*/*/example*_test.go"} { // nested modules' too
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v, %v", pattern, found, err)
		}
		files = append(files, found...)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		examples.WriteString(bare(string(text)))
	}
	docs, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := 0
	fence := regexp.MustCompile("(?s)```go\n(.*?)```")
	for _, doc := range append(docs, "../README.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range fence.FindAllStringSubmatch(string(text), -1) {
			blocks++
			if !strings.Contains(examples.String(), bare(block[1])) {
				t.Errorf("%s: no example has this code:\n%s", doc, block[1])
			}
		}
	}
	if blocks < 20 {
		t.Fatalf("found %d blocks of code", blocks)
	}
}

// bare is code without indentation and empty lines.
func bare(code string) string {
	var b strings.Builder
	for line := range strings.Lines(code) {
		if line = strings.TrimSpace(line); line != "" {
			b.WriteString(line + "\n")
		}
	}
	return b.String()
}

// The README is short, and every file that it or a doc links to is there.
func TestDocsLinkToWhatIsThere(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(string(readme), "\n"); n > 200 {
		t.Errorf("the README has %d lines", n)
	}
	docs, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	link := regexp.MustCompile(`\]\(([^)#]+)[^)]*\)`)
	for _, doc := range append(docs, "../README.md", "../CHANGELOG.md") {
		text, err := os.ReadFile(doc)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if strings.Contains(m[1], "://") {
				continue
			}
			if _, err := os.Stat(filepath.Join(filepath.Dir(doc), m[1])); err != nil {
				t.Errorf("%s links to %s, which is not there", doc, m[1])
			}
		}
	}
}
