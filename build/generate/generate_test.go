// SPDX-License-Identifier: Apache-2.0

package build_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// TestGenerateMakesTheBundleOfEachScenario runs Generate on the files below in/ of
// each archive, and compares with manifests.yaml and summary, or with error.
func TestGenerateMakesTheBundleOfEachScenario(t *testing.T) {
	scenario.Run(t, "testdata/generate/*.txtar", scenario.Only("options.json", "in/"), run)
}

func TestEveryTransformHasAScenarioInWhichItAloneDoesSomething(t *testing.T) {
	alone := map[string]string{} // what the summaries say
	for _, archive := range scenario.Archives(t, "testdata/generate/*.txtar") {
		if only := optionsIn(t, archive).OnlyTransforms; len(only) == 1 {
			for _, f := range archive.Files {
				if f.Name == "summary" {
					alone[only[0]] += "\n" + string(f.Data)
				}
			}
		}
	}
	for _, transform := range build.Transforms() {
		if !regexp.MustCompile(`\n` + transform.Name + ` (changed|dropped|added): `).MatchString(alone[transform.Name]) {
			t.Errorf("no scenario shows what %s does alone", transform.Name)
		}
		if transform.Does == "" || transform.Why == "" {
			t.Errorf("%s does not say what it does and why", transform.Name)
		}
	}
}

func TestATransformIsSwitchedOffByItsNameAndByThatOfOthers(t *testing.T) {
	dir := kustomization(t, []byte(configMap))
	for _, c := range []struct {
		name    string
		options build.GenerateOptions
		want    bool // that the namespace is changed
	}{
		{"nothing is said", build.GenerateOptions{}, true},
		{"it is the only one", build.GenerateOptions{OnlyTransforms: []string{"namespace"}}, true},
		{"another is the only one", build.GenerateOptions{OnlyTransforms: []string{"pull-policy"}}, false},
		{"it is skipped", build.GenerateOptions{SkipTransforms: []string{"namespace"}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.options
			o.Dir, o.ProviderName, o.ProviderType, o.ProviderVersion = dir, "demo", extractor.Core, "v1.0.0"
			bundle, summary, err := build.Generate(o)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(bundle.Manifests), "openshift-cluster-api"); got != c.want {
				t.Errorf("the object moved: %v\n%s", got, bundle.Manifests)
			}
			for _, result := range summary.Results {
				if result.Transform == "namespace" && result.Skipped == c.want {
					t.Errorf("the summary says: %+v", result)
				}
			}
		})
	}
}

// optionsIn reads options.json of a scenario: GenerateOptions.
func optionsIn(t *testing.T, archive *scenario.Archive) build.GenerateOptions {
	t.Helper()
	options := build.GenerateOptions{
		ProviderName: "cluster-api-provider-demo", ProviderType: extractor.Infrastructure, ProviderVersion: "v1.2.3",
		ImageName: "registry.example.com/openshift:demo",
	}
	for _, f := range archive.Files {
		if f.Name == "options.json" {
			if err := json.Unmarshal(f.Data, &options); err != nil {
				t.Fatal(err)
			}
		}
	}
	return options
}

func run(t *testing.T, archive *scenario.Archive) []scenario.File {
	t.Helper()
	dir := t.TempDir()
	options := optionsIn(t, archive)
	writeArchive(t, dir, archive)
	options.Dir = filepath.Join(dir, "in")
	bundle, summary, err := build.Generate(options)
	if err != nil {
		return []scenario.File{{Name: "error", Data: []byte(strings.ReplaceAll(err.Error(), dir, "DIR") + "\n")}}
	}
	checkBundle(t, options, bundle)
	return []scenario.File{{Name: "manifests.yaml", Data: bundle.Manifests}, {Name: "summary", Data: []byte(describe(summary))}}
}

func writeArchive(t *testing.T, dir string, archive *scenario.Archive) {
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
