// SPDX-License-Identifier: Apache-2.0

package capiinstaller

import (
	"bytes"
	"fmt"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

const module = "github.com/capi-installer/capi-installer"

// importOrder is the order of doc.go: a package imports only packages above it.
var importOrder = []string{
	"internal/text",
	"internal/object",
	"internal/crdpack",
	"internal/yamldoc",
	"internal/variable",
	"internal/parallel",
	"internal/rbacrule",
	"internal/capicontract",
	"internal/crdchange",
	"api/v1alpha1",
	"manifests",
	"imagesjson",
	"internal/lru",
	"internal/ocilayout",
	"internal/scratch",
	"internal/certificate",
	"internal/inflate",
	"internal/heap",
	"extractor",
	"extractor/scope",
	"extractor/remote/mirror",
	"extractor/remote/keychain",
	"extractor/remote/transport",
	"extractor/remote/fetch",
	"extractor/remote/overlay",
	"internal/singleflight",
	"extractor/remote",
	"extractor/signature/policy",
	"extractor/signature",
	"extractor/cache",
	"extractor/configmap",
	"install/operand",
	"install/revision",
	"install/probe",
	"install/status",
	"install/predecessor",
	"install/officialapi",
	"install/tlsprofile",
	"install/servingcert",
	"install/lifecyclehook",
	"install/snapshot",
	"install/version",
	"install/objectcache",
	"install/installer",
	"install/registryconfig",
	"install/metricsserver",
	"install",
	"build/contract",
	"build/extension",
	"build/rbac",
	"build/bundle",
	"build/starlark",
	"build/kustomize",
	"build/transform",
	"build/generate",
	"build/clusterctl",
	"build/pack",
	"build/diff",
	"cmd/capi-installer",
	"cmd/capi-manifests/schema",
	"cmd/capi-manifests/internal/schematest",
	"cmd/capi-manifests/internal/term",
	"cmd/capi-manifests/internal/page",
	"cmd/capi-manifests/internal/pagetest",
	"cmd/capi-manifests/internal/objecttree",
	"cmd/capi-manifests/internal/rbacreport",
	"cmd/capi-manifests/internal/rulebook",
	"cmd/capi-manifests/internal/source",
	"cmd/capi-manifests/internal/verdict",
	"cmd/capi-manifests/internal/generatereport",
	"cmd/capi-manifests/internal/publish",
	"cmd/capi-manifests/internal/release",
	"cmd/capi-manifests/internal/inspection",
	"cmd/capi-manifests/internal/findings",
	"cmd/capi-manifests/internal/extensionserver",
	"cmd/capi-manifests/internal/extensionreport",
	"cmd/capi-manifests/internal/diffreport",
	"cmd/capi-manifests/internal/rollout",
	"cmd/capi-manifests/internal/installed",
	"cmd/capi-manifests/internal/history",
	"cmd/capi-manifests/internal/apiserver",
	"cmd/capi-manifests/internal/planreport",
	"cmd/capi-manifests/internal/cli",
	"cmd/capi-manifests/command",
	"cmd/capi-manifests",
}

// pure are the packages that take values and return values; notForPure are the
// packages that they may not import, because of input and output.
var (
	pure        = []string{"internal/text", "internal/object", "internal/yamldoc", "internal/variable", "internal/parallel", "internal/rbacrule", "internal/capicontract", "install/operand", "install/revision", "install/predecessor", "build/rbac", "build/transform", "build/diff", "cmd/capi-manifests/internal/rollout"}
	notForPure  = []string{"context", "net/http", "os", "sigs.k8s.io/controller-runtime/pkg/client", "k8s.io/client-go/kubernetes"}
	nestedTrees = []string{"boxcutter", "test", "tools", "hack", ".git", "bin", "_output"}
)

func TestImports_OnlyPackagesAbove(t *testing.T) {
	for _, violation := range violations(t, os.DirFS(".")) {
		t.Error(violation)
	}
}

func TestImports_FindsPlantedViolations(t *testing.T) {
	planted := fstest.MapFS{
		"api/v1alpha1/x.go":    {Data: []byte("package v1alpha1\nimport _ \"" + module + "/extractor\"\n")},
		"install/operand/x.go": {Data: []byte("package operand\nimport _ \"net/http\"\n")},
		"build/transform/x.go": {Data: []byte("package transform\nimport _ \"" + module + "/install/operand\"\n")},
		"surprise/x.go":        {Data: []byte("package surprise\n")},
	}
	want := []string{
		`api/v1alpha1/x.go imports extractor, which stands below it`,
		`build/transform/x.go imports install/operand: build and install share only what stands above both`,
		`install/operand/x.go imports net/http, but is pure`,
		`surprise/x.go is in a package that importOrder does not know`,
	}
	if got := violations(t, planted); !slices.Equal(got, want) {
		t.Errorf("found:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

// TestProgram_LinksOnlyUsedMethods: with html/template in the program the linker keeps every exported method, because
// templates call methods by name. The binary then grows by 25 MiB, and its resident pages count towards the limit of
// 120 MiB. gRPC links html/template.
func TestProgram_LinksOnlyUsedMethods(t *testing.T) {
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/capi-installer").Output()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range strings.Fields(string(out)) {
		if name == "html/template" || name == "google.golang.org/grpc" {
			t.Errorf("capi-installer links %s", name)
		}
	}
}

// maxLines is the maximum number of lines of a package without its tests; larger packages
// hold several concepts. build/contract has no limit, because it has one entry per rule.
const maxLines = 4000

func TestPackages_HaveOneConcept(t *testing.T) {
	for folder, lines := range packageLines(t, os.DirFS(".")) {
		if lines > maxLines && folder != "build/contract" {
			t.Errorf("%s has %d lines: split it by concept; the limit is %d", folder, lines, maxLines)
		}
	}
}

// packageLines returns the number of lines of each package, without tests.
func packageLines(t *testing.T, tree fs.FS) map[string]int {
	t.Helper()
	lines := map[string]int{}
	for _, folder := range importOrder {
		files, err := fs.Glob(tree, folder+"/*.go")
		if err != nil || len(files) == 0 {
			t.Fatalf("%s has no Go files (%v); remove it from importOrder", folder, err)
		}
		for _, name := range files {
			if strings.HasSuffix(name, "_test.go") {
				continue
			}
			source, err := fs.ReadFile(tree, name)
			if err != nil {
				t.Fatal(err)
			}
			lines[folder] += bytes.Count(source, []byte("\n"))
		}
	}
	return lines
}

func TestDoc_ListsPackagesInImportOrder(t *testing.T) {
	doc, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	var listed []string
	for _, entry := range regexp.MustCompile(`(?m)^//   - ([^:]+): `).FindAllSubmatch(doc, -1) {
		listed = append(listed, string(entry[1]))
	}
	if diff := cmp.Diff(importOrder, listed); diff != "" {
		t.Errorf("-importOrder +doc.go:\n%s", diff)
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

// forbidden returns the reason why a folder may not import a package; empty if it may.
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
