package redislimiter_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	named     = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)(?:/([^`]+))?`")
	namedFile = regexp.MustCompile("`([a-z_]+_test\\.go)`")
	faultRow  = regexp.MustCompile(`\{name: "([^"]+)"`)
)

// Every test that docs/guarantees.md names is there, and every row of faults is in its table.
func TestGuaranteesNameTestsThatExist(t *testing.T) {
	page, err := os.ReadFile("../docs/guarantees.md")
	if err != nil {
		t.Fatal(err)
	}
	files := testFiles(t)
	found := named.FindAllStringSubmatch(string(page), -1)
	if len(found) < 20 {
		t.Fatalf("only %d tests are named", len(found))
	}
	for _, name := range found {
		if !defines(files, name[1], name[2]) {
			t.Errorf("there is no %s %s", name[1], name[2])
		}
	}
	for _, name := range namedFile.FindAllStringSubmatch(string(page), -1) {
		if files[filepath.Join("..", "integration_test", name[1])] == "" {
			t.Errorf("there is no %s among the integration tests", name[1])
		}
	}
	rows := faultRow.FindAllStringSubmatch(files["../integration_test/rows_test.go"], -1)
	if len(rows) < 10 {
		t.Fatalf("only %d rows of faults", len(rows))
	}
	for _, row := range rows {
		if !strings.Contains(string(page), "`TestFaultRows/"+row[1]+"`") {
			t.Errorf("the row %q is not in the table", row[1])
		}
	}
}

// testFiles reads all tests of the repository.
func testFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir("..", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		files[path] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// defines reports whether one of the files has the test, and the name of the subtest in the same directory.
func defines(files map[string]string, name, sub string) bool {
	for path, text := range files {
		if !strings.Contains(text, "func "+name+"(") {
			continue
		}
		if sub == "" {
			return true
		}
		for other, text := range files {
			if filepath.Dir(other) == filepath.Dir(path) && strings.Contains(text, `"`+sub+`"`) {
				return true
			}
		}
	}
	return false
}
