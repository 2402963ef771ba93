// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var testName = regexp.MustCompile(`\bTest[A-Z]\w*`)

// TestReadme_DifferencesNameTests checks that every row of the README's tables of
// differences and additional options names tests that exist.
func TestReadme_DifferencesNameTests(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	tests := declaredTests(t)
	rows := 0
	for _, title := range []string{"Differences", "Additional options"} {
		for _, row := range tableRows(section(string(readme), title)) {
			rows++
			named := testName.FindAllString(row, -1)
			if len(named) == 0 {
				t.Errorf("row without a test: %s", row)
			}
			for _, name := range named {
				if !slices.Contains(tests, name) {
					t.Errorf("test %s not found, in the row: %s", name, row)
				}
			}
		}
	}
	if rows < 20 {
		t.Errorf("only %d rows of tables found", rows)
	}
}

// TestNames_SubjectAndBehavior checks that tests are named TestSubject_Behavior, so that they are found from the code
// that they test.
func TestNames_SubjectAndBehavior(t *testing.T) {
	pattern := regexp.MustCompile(`^Test[A-Z]\w*_[A-Z]\w*$`)
	for _, name := range declaredTests(t) {
		if name != "TestMain" && (!pattern.MatchString(name) || len(name) > 60) {
			t.Errorf("invalid test name %s: want TestSubject_Behavior with at most 60 characters", name)
		}
	}
}

// section returns the text below a title, up to the next one.
func section(text, title string) string {
	_, text, _ = strings.Cut(text, "\n## "+title+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	return text
}

// tableRows returns the rows of the tables in a text, without their heads.
func tableRows(text string) []string {
	var rows []string
	for table := range strings.SplitSeq(text, "\n\n") {
		lines := strings.Split(strings.Trim(table, "\n"), "\n")
		if len(lines) > 2 && strings.HasPrefix(lines[1], "|--") {
			rows = append(rows, lines[2:]...)
		}
	}
	return rows
}

// declaredTests returns the names of all tests of the module.
func declaredTests(t *testing.T) []string {
	t.Helper()
	declaration := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	var names []string
	module := os.DirFS("..")
	err := fs.WalkDir(module, ".", func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		data, err := fs.ReadFile(module, path)
		for _, match := range declaration.FindAllSubmatch(data, -1) {
			names = append(names, string(match[1]))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
