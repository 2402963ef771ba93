// SPDX-License-Identifier: Apache-2.0

package capiinstaller

import (
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/capi-installer/capi-installer"

// importOrder is the order of doc.go: a package imports only what stands above it.
var importOrder = []string{
	"api/v1alpha1",
	"manifests",
	"imagesjson",
	"extractor",
	"extractor/remote/mirror",
	"extractor/remote/credential",
	"extractor/remote/network",
	"extractor/remote/pull",
	"extractor/flight",
	"extractor/remote",
	"extractor/cache",
	"extractor/configmap",
	"install/operand",
	"install/revision",
	"install/probe",
	"install/status",
	"install/version",
	"install/installer",
	"install",
	"build/contract",
	"build/rbac",
	"build",
	"build/diff",
	"cmd/capi-installer",
	"cmd/capi-manifests",
}

// pure are the packages that take values and return values. What they may not
// import is what would let them do otherwise.
var (
	pure        = []string{"install/operand", "install/revision", "build/rbac", "build/diff"}
	notForPure  = []string{"context", "net/http", "os", "sigs.k8s.io/controller-runtime/pkg/client", "k8s.io/client-go/kubernetes"}
	nestedTrees = []string{"boxcutter", "test", "tools", "hack", ".git", "bin", "_output"}
)

func TestPackagesImportOnlyWhatStandsAboveThem(t *testing.T) {
	for _, violation := range violations(t, os.DirFS(".")) {
		t.Error(violation)
	}
}

func TestAPlantedViolationIsFound(t *testing.T) {
	planted := fstest.MapFS{
		"api/v1alpha1/x.go":    {Data: []byte("package v1alpha1\nimport _ \"" + module + "/extractor\"\n")},
		"install/operand/x.go": {Data: []byte("package operand\nimport _ \"net/http\"\n")},
		"build/x.go":           {Data: []byte("package build\nimport _ \"" + module + "/install/operand\"\n")},
		"surprise/x.go":        {Data: []byte("package surprise\n")},
	}
	want := []string{
		`api/v1alpha1/x.go imports extractor, which stands below it`,
		`build/x.go imports install/operand: build and install share only what stands above both`,
		`install/operand/x.go imports net/http, but is pure`,
		`surprise/x.go is in a package that importOrder does not know`,
	}
	if got := violations(t, planted); !slices.Equal(got, want) {
		t.Errorf("found:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// violations reads the imports of every file and returns those against the rules.
func violations(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var found []string
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains(nestedTrees, name) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || path.Dir(name) == "." {
			return nil
		}
		found = append(found, violationsOf(t, tree, name)...)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return found
}

func violationsOf(t *testing.T, tree fs.FS, name string) []string {
	t.Helper()
	source, err := fs.ReadFile(tree, name)
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	folder := path.Dir(name)
	if !slices.Contains(importOrder, folder) {
		return []string{name + " is in a package that importOrder does not know"}
	}
	var found []string
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if why := forbidden(folder, imported); why != "" {
			found = append(found, fmt.Sprintf("%s imports %s", name, why))
		}
	}
	return found
}

// forbidden says why a folder may not import a package; empty if it may.
func forbidden(folder, imported string) string {
	if slices.Contains(pure, folder) && slices.Contains(notForPure, imported) {
		return imported + ", but is pure"
	}
	own, found := strings.CutPrefix(imported, module+"/")
	if !found {
		return ""
	}
	switch {
	case strings.HasPrefix(own, "test/"):
		return own + ", which is for tests"
	case within(folder, "build") && within(own, "install"), within(folder, "install") && within(own, "build"):
		return own + ": build and install share only what stands above both"
	case slices.Index(importOrder, own) >= slices.Index(importOrder, folder):
		return own + ", which stands below it"
	default:
		return ""
	}
}

func within(folder, tree string) bool {
	return folder == tree || strings.HasPrefix(folder, tree+"/")
}
