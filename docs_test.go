// SPDX-License-Identifier: Apache-2.0

package capiinstaller

import (
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var documents = []string{"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "docs/conditions.md", "docs/events.md", "docs/metrics.md", "docs/registries.md", "docs/try-a-change.md", "boxcutter/README.md", "build/contract/FORMAT.md", "build/contract/RULES.md"}

func read(t *testing.T, name string) string {
	t.Helper()
	content, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestEveryMakeTargetInTheDocumentsExists(t *testing.T) {
	makefile := read(t, "Makefile")
	mention := regexp.MustCompile("(?m)(?:`|^)make ([a-z0-9]+)")
	found := 0
	for _, name := range documents {
		for _, match := range mention.FindAllStringSubmatch(read(t, name), -1) {
			found++
			if !strings.Contains(makefile, "\n"+match[1]+":") {
				t.Errorf("%s names make %s, which is no target", name, match[1])
			}
		}
	}
	if found < 5 {
		t.Errorf("only %d targets are named", found)
	}
}

func TestEveryLinkInTheDocumentsLeadsSomewhere(t *testing.T) {
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	for _, name := range documents {
		for _, match := range link.FindAllStringSubmatch(read(t, name), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(name), match[1])); err != nil {
				t.Errorf("%s links to %s: %v", name, match[1], err)
			}
		}
	}
}

func TestEverySourceFileNamesItsLicence(t *testing.T) {
	kinds := []string{".go", ".sh"}
	err := fs.WalkDir(os.DirFS("."), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains([]string{".git", "bin", "_output", "testdata"}, entry.Name()) {
				return fs.SkipDir
			}
			return nil
		}
		if slices.Contains(kinds, path.Ext(name)) && !strings.Contains(read(t, name)[:min(200, len(read(t, name)))], "SPDX-License-Identifier: Apache-2.0") {
			t.Errorf("%s has no SPDX line", name)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
