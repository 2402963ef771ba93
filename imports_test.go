// SPDX-License-Identifier: Apache-2.0

package capiinstaller

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"
)

const module = "github.com/capi-installer/capi-installer"

// layers maps each folder of the product to the other folders that it may import. doc.go describes them.
var layers = map[string][]string{
	"internal":   nil,
	"api":        {"internal"},
	"manifests":  {"internal", "api"},
	"deploy":     {"internal", "api"},
	"imagesjson": {"internal", "api"},
	"extractor":  {"internal", "api", "imagesjson"},
	"install":    {"internal", "api", "manifests", "imagesjson", "extractor"},
	"build":      {"internal", "api", "manifests", "imagesjson", "extractor"},
	"cmd":        {"internal", "api", "manifests", "deploy", "imagesjson", "extractor", "install", "build"},
}

// otherTrees have no code of the two programs.
var otherTrees = []string{"extension", "third_party", "test", "tools", "hack", "docs", ".git", "bin", "_output"}

// A fence restricts who imports some packages, beyond the layers.
type fence struct {
	name string
	// imported are import paths; a path also stands for the packages below it.
	imported []string
	// allowed and fenced are folders: either only the allowed ones may import, or only the fenced ones may not.
	allowed, fenced []string
}

var fences = []fence{
	{
		name:     "only the engine and the probes know boxcutter",
		imported: []string{"pkg.package-operator.run/boxcutter"},
		allowed:  []string{"install/engine", "install/probe"},
	},
	{
		name:     "packages that take values and return values have no input or output",
		imported: []string{"context", "net/http", "os", "sigs.k8s.io/controller-runtime/pkg/client", "k8s.io/client-go/kubernetes"},
		fenced: []string{
			"internal/text", "internal/object", "internal/relocation", "internal/yamldoc", "internal/variable", "internal/parallel", "internal/rbacrule", "internal/capicontract", "extractor/scope",
			"install/operand", "install/revision", "install/reason", "install/predecessor", "build/rbac", "internal/permission", "build/transform", "build/diff", "cmd/capi-manifests/internal/rollout",
		},
	},
}

func TestImports_StayWithinLayers(t *testing.T) {
	for _, violation := range violations(t, os.DirFS(".")) {
		t.Error(violation)
	}
}

func TestImports_FindsPlantedViolations(t *testing.T) {
	planted := fstest.MapFS{
		"api/v1alpha1/x.go":    {Data: []byte("package v1alpha1\nimport _ \"" + module + "/extractor\"\n")},
		"install/operand/x.go": {Data: []byte("package operand\nimport _ \"net/http\"\n")},
		"build/transform/x.go": {Data: []byte("package transform\nimport _ \"" + module + "/install/operand\"\n")},
		"imagesjson/x.go":      {Data: []byte("package imagesjson\nimport _ \"" + module + "/test/registry\"\n")},
		"surprise/x.go":        {Data: []byte("package surprise\n")},
	}
	want := []string{
		`api/v1alpha1/x.go imports extractor: api may not import extractor`,
		`build/transform/x.go imports install/operand: build may not import install`,
		`imagesjson/x.go imports test/registry: imagesjson may not import test`,
		`install/operand/x.go imports net/http: packages that take values and return values have no input or output`,
		`surprise/x.go is in a folder without a layer`,
	}
	if got := violations(t, planted); !slices.Equal(got, want) {
		t.Errorf("found:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestFences_NameExistingFolders: after a rename, a fence would protect nothing.
func TestFences_NameExistingFolders(t *testing.T) {
	for _, fence := range fences {
		for _, folder := range slices.Concat(fence.allowed, fence.fenced) {
			if files, _ := fs.Glob(os.DirFS("."), folder+"/*.go"); len(files) == 0 {
				t.Errorf("%s: %s has no Go files", fence.name, folder)
			}
		}
	}
}

// TestProgram_LinksOnlyUsedMethods: with html/template in the program the linker keeps every exported method, because
// templates call methods by name. The binary then grows by 25 MiB, and its resident pages count towards the limit of
// the container. gRPC links html/template.
func TestProgram_LinksOnlyUsedMethods(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/capi-installer").Output()
	must(t, err)
	for _, name := range strings.Fields(string(out)) {
		if name == "html/template" || name == "google.golang.org/grpc" {
			t.Errorf("capi-installer links %s", name)
		}
	}
}

// maxLines is the maximum number of lines of a package without its tests; larger packages hold several concepts.
const maxLines = 4600

// ruleFolders have no limit, because they have one entry per rule.
var ruleFolders = []string{"build/contract", "build/contract/rules"}

func TestPackages_HaveOneConcept(t *testing.T) {
	lines := map[string]int{}
	walkSources(t, os.DirFS("."), func(name string, source []byte) {
		lines[path.Dir(name)] += bytes.Count(source, []byte("\n"))
	})
	for _, folder := range slices.Sorted(maps.Keys(lines)) {
		if lines[folder] > maxLines && !slices.Contains(ruleFolders, folder) {
			t.Errorf("%s has %d lines: split it by concept; the limit is %d", folder, lines[folder], maxLines)
		}
	}
}

func TestDoc_DescribesEveryLayer(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	must(t, err)
	for folder := range layers {
		if !bytes.Contains(doc, []byte("//   - "+folder)) {
			t.Errorf("doc.go does not describe %s", folder)
		}
	}
}

// violations returns the imports against the layers and the fences.
func violations(t *testing.T, tree fs.FS) []string {
	t.Helper()
	var found []string
	walkSources(t, tree, func(name string, source []byte) {
		found = append(found, violationsOf(t, name, source)...)
	})
	slices.Sort(found)
	return found
}

// walkSources visits the Go files of the product without tests.
func walkSources(t *testing.T, tree fs.FS, visit func(name string, source []byte)) {
	t.Helper()
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if slices.Contains(otherTrees, name) {
				return fs.SkipDir
			}
			return nil
		}
		if path.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") || path.Dir(name) == "." {
			return nil
		}
		source, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		visit(name, source)
		return nil
	})
	must(t, err)
}

func violationsOf(t *testing.T, name string, source []byte) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly)
	must(t, err)
	folder := path.Dir(name)
	if _, known := layers[layer(folder)]; !known {
		return []string{name + " is in a folder without a layer"}
	}
	var found []string
	for _, spec := range file.Imports {
		imported, _ := strconv.Unquote(spec.Path.Value)
		if why := forbidden(folder, imported); why != "" {
			found = append(found, fmt.Sprintf("%s imports %s: %s", name, strings.TrimPrefix(imported, module+"/"), why))
		}
	}
	return found
}

// forbidden returns the reason why a folder may not import a package; empty if it may.
func forbidden(folder, imported string) string {
	for _, fence := range fences {
		if fence.forbids(folder, imported) {
			return fence.name
		}
	}
	own, found := strings.CutPrefix(imported, module+"/")
	if !found || layer(own) == layer(folder) || slices.Contains(layers[layer(folder)], layer(own)) {
		return ""
	}
	return fmt.Sprintf("%s may not import %s", layer(folder), layer(own))
}

// forbids reports whether the fence keeps a folder from importing a package.
func (f fence) forbids(folder, imported string) bool {
	if !slices.ContainsFunc(f.imported, func(fenced string) bool { return within(imported, fenced) }) {
		return false
	}
	if len(f.allowed) > 0 {
		return !slices.Contains(f.allowed, folder)
	}
	return slices.Contains(f.fenced, folder)
}

// layer returns the first segment of a folder.
func layer(folder string) string {
	first, _, _ := strings.Cut(folder, "/")
	return first
}

func within(folder, tree string) bool {
	return folder == tree || strings.HasPrefix(folder, tree+"/")
}
