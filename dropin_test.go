// SPDX-License-Identifier: Apache-2.0

package capiinstaller

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

// additionsOf returns the names that third_party/boxcutter has and the module it stands in for has not, from its list: the names in
// packages, and the fields of options. Its methods are used through small interfaces.
func additionsOf(t *testing.T) []string {
	t.Helper()
	page, err := os.ReadFile("third_party/boxcutter/original/additions.md")
	must(t, err)
	var names []string
	for _, match := range regexp.MustCompile("(?m)^- `[a-z]+\\.(?:[A-Za-z]+Options\\.)?([A-Za-z]+)`").FindAllStringSubmatch(string(page), -1) {
		if !strings.HasPrefix(match[1], "Set") {
			names = append(names, match[1])
		}
	}
	if len(names) < 10 {
		t.Fatalf("additions: %q", names)
	}
	return names
}

func TestDropIn_UsesOnlyTheOriginalAPI(t *testing.T) {
	if uses := usesOf(t, os.DirFS(".")); len(uses) > 0 {
		t.Errorf("deleting the replace line of go.mod would break:\n%s", strings.Join(uses, "\n"))
	}
}

func TestDropIn_FindsPlantedUse(t *testing.T) {
	const source = "package a\nimport \"pkg.package-operator.run/boxcutter\"\nvar _ = boxcutter.WithConcurrency(2)\n"
	planted := fstest.MapFS{
		"install/installer/x.go":     {Data: []byte(source)},
		"third_party/boxcutter/x.go": {Data: []byte(source)},
		"install/x.go":               {Data: []byte("package b\nvar _ = other.WithConcurrency\n")},
	}
	if uses := usesOf(t, planted); !slices.Equal(uses, []string{"install/installer/x.go:3: WithConcurrency"}) {
		t.Errorf("found %q", uses)
	}
}

// usesOf returns where files that import boxcutter use its additions.
func usesOf(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var uses []string
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{"third_party", ".git", "bin", "_output"}, name):
			return fs.SkipDir
		case !entry.IsDir() && path.Ext(name) == ".go":
			uses = append(uses, usesIn(t, tree, name)...)
		}
		return nil
	})
	must(t, err)
	return uses
}

func usesIn(t *testing.T, tree fs.FS, name string) []string {
	t.Helper()
	source, err := fs.ReadFile(tree, name)
	must(t, err)
	files := token.NewFileSet()
	file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
	must(t, err)
	if !slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool {
		return strings.HasPrefix(spec.Path.Value, `"pkg.package-operator.run/boxcutter`)
	}) {
		return nil
	}
	additions := additionsOf(t)
	var uses []string
	for node := range ast.Preorder(file) {
		selector, ok := node.(*ast.SelectorExpr)
		if ok && slices.Contains(additions, selector.Sel.Name) {
			uses = append(uses, fmt.Sprintf("%s:%d: %s", name, files.Position(selector.Pos()).Line, selector.Sel.Name))
		}
	}
	return uses
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
