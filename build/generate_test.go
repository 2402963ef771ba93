// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
)

// scenario is what options.json of a scenario says: GenerateOptions, and the transforms to apply (all if empty).
type scenario struct {
	build.GenerateOptions
	Only []string
}

// TestGenerateMakesTheBundleOfEachScenario runs Generate on the files below in/ of
// each archive, and compares with manifests.yaml and summary, or with error.
// UPDATE=1 rewrites them.
func TestGenerateMakesTheBundleOfEachScenario(t *testing.T) {
	files, err := filepath.Glob("testdata/generate/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no scenarios: %v", err)
	}
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(file)
			if err != nil {
				t.Fatal(err)
			}
			got := &txtar.Archive{Comment: archive.Comment}
			for _, f := range archive.Files {
				if f.Name == "options.json" || strings.HasPrefix(f.Name, "in/") {
					got.Files = append(got.Files, f)
				}
			}
			got.Files = append(got.Files, run(t, archive)...)
			if os.Getenv("UPDATE") != "" {
				if err := os.WriteFile(file, txtar.Format(got), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(txtar.Format(archive)), string(txtar.Format(got))); diff != "" {
				t.Errorf("%s (-want +got; UPDATE=1 rewrites):\n%s", file, diff)
			}
		})
	}
}

func TestEveryTransformHasAScenarioInWhichItDoesSomething(t *testing.T) {
	files, err := filepath.Glob("testdata/generate/*.txtar")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		all.Write(readFile(t, file))
	}
	for _, transform := range build.Transforms() {
		changed, dropped := "\n"+transform.Name+" changed: ", "\n"+transform.Name+" dropped: "
		if !strings.Contains(all.String(), changed) && !strings.Contains(all.String(), dropped) {
			t.Errorf("no scenario shows what %s does", transform.Name)
		}
		if transform.Does == "" {
			t.Errorf("%s does not say what it does", transform.Name)
		}
	}
}

func run(t *testing.T, archive *txtar.Archive) []txtar.File {
	t.Helper()
	dir := t.TempDir()
	s := scenario{GenerateOptions: build.GenerateOptions{
		ProviderName: "cluster-api-provider-demo", ProviderType: extractor.Infrastructure, ProviderVersion: "v1.2.3",
		ImageName: "registry.example.com/openshift:demo",
	}}
	for _, f := range archive.Files {
		if f.Name == "options.json" {
			if err := json.Unmarshal(f.Data, &s); err != nil {
				t.Fatal(err)
			}
		}
	}
	writeArchive(t, dir, archive)
	s.Dir = filepath.Join(dir, "in")
	for _, transform := range build.Transforms() {
		if len(s.Only) > 0 && !slices.Contains(s.Only, transform.Name) {
			s.SkipTransforms = append(s.SkipTransforms, transform.Name)
		}
	}
	bundle, summary, err := build.Generate(s.GenerateOptions)
	if err != nil {
		return []txtar.File{{Name: "error", Data: []byte(strings.ReplaceAll(err.Error(), dir, "DIR") + "\n")}}
	}
	checkBundle(t, s.GenerateOptions, bundle)
	return []txtar.File{{Name: "manifests.yaml", Data: bundle.Manifests}, {Name: "summary", Data: []byte(describe(summary))}}
}

func writeArchive(t *testing.T, dir string, archive *txtar.Archive) {
	t.Helper()
	for _, f := range archive.Files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f.Data, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// checkBundle checks what holds for each bundle: its files read back as the same bundle, and a second run gives the same.
func checkBundle(t *testing.T, options build.GenerateOptions, bundle extractor.Bundle) {
	t.Helper()
	again, _, err := build.Generate(options)
	if err != nil {
		t.Fatalf("the second run failed: %v", err)
	}
	if diff := cmp.Diff(bundle, again); diff != "" {
		t.Errorf("the second run differs:\n%s", diff)
	}
	files, err := bundle.Files()
	if err != nil {
		t.Fatalf("writing the bundle: %v", err)
	}
	read, err := files.Bundles(bundle.Origin)
	if err != nil {
		t.Fatalf("reading what was written: %v", err)
	}
	if diff := cmp.Diff([]extractor.Bundle{bundle}, read); diff != "" {
		t.Errorf("the bundle read back differs:\n%s", diff)
	}
}

func describe(summary build.Summary) string {
	var text strings.Builder
	fmt.Fprintf(&text, "read %d, written %d\n", summary.Read, summary.Written)
	for _, result := range summary.Results {
		for what, objects := range map[string][]string{"changed": result.Changed, "dropped": result.Dropped, "added": result.Added} {
			if len(objects) > 0 {
				fmt.Fprintf(&text, "%s %s: %s\n", result.Transform, what, strings.Join(objects, ", "))
			}
		}
	}
	for _, missing := range summary.Missing {
		fmt.Fprintf(&text, "missing: %s\n", missing)
	}
	lines := strings.Split(strings.TrimSpace(text.String()), "\n")
	slices.Sort(lines)
	return strings.Join(lines, "\n") + "\n"
}
