// SPDX-License-Identifier: Apache-2.0

package generate_test

import (
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// TestBundle_Scenarios runs Bundle on the files below in/ of each archive, and
// compares the result with manifests.yaml and summary, or with error.
func TestBundle_Scenarios(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", scenario.Only("options.json", "in/"), run)
}

func TestTransforms_EachHasAScenario(t *testing.T) {
	alone := map[string]string{} // the summaries
	for _, archive := range scenario.Archives(t, "testdata/*.txtar") {
		if only := optionsIn(t, archive).OnlyTransforms; len(only) == 1 {
			for _, f := range archive.Files {
				if f.Name == "summary" {
					alone[only[0]] += "\n" + string(f.Data)
				}
			}
		}
	}
	for _, edit := range transform.All() {
		if !regexp.MustCompile(`\n` + edit.Name + ` (changed|dropped|added): `).MatchString(alone[edit.Name]) {
			t.Errorf("no scenario shows %s alone", edit.Name)
		}
		if edit.Does == "" || edit.Why == "" {
			t.Errorf("%s lacks Does or Why", edit.Name)
		}
	}
}

func TestOptions_OnlyAndSkipTransforms(t *testing.T) {
	dir := kustomization(t, []byte("apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: demo\n"))
	for _, c := range []struct {
		name    string
		options generate.Options
		want    bool // whether the namespace is changed
	}{
		{"nothing is said", generate.Options{}, true},
		{"it is the only one", generate.Options{Options: transform.Options{OnlyTransforms: []string{"namespace"}}}, true},
		{"another is the only one", generate.Options{Options: transform.Options{OnlyTransforms: []string{"pull-policy"}}}, false},
		{"it is skipped", generate.Options{Options: transform.Options{SkipTransforms: []string{"namespace"}}}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			o := c.options
			o.Dir, o.ProviderName, o.ProviderType, o.ProviderVersion = dir, "demo", extractor.Core, "v1.0.0"
			bundle, summary, err := generate.Bundle(o)
			if err != nil {
				t.Fatal(err)
			}
			if got := strings.Contains(string(bundle.Manifests), "openshift-cluster-api"); got != c.want {
				t.Errorf("the object moved: %v\n%s", got, bundle.Manifests)
			}
			for _, result := range summary.Results {
				if result.Transform == "namespace" && result.Skipped == c.want {
					t.Errorf("unexpected summary: %+v", result)
				}
			}
		})
	}
}

// optionsIn reads options.json of a scenario.
func optionsIn(t *testing.T, archive *scenario.Archive) generate.Options {
	t.Helper()
	options := generate.Options{
		ProviderName: "cluster-api-provider-demo", ProviderType: extractor.Infrastructure, ProviderVersion: "v1.2.3",
		Options: transform.Options{ImageName: "registry.example.com/openshift:demo"},
	}
	scenario.ReadOptions(t, archive, &options)
	return options
}

func run(t *testing.T, archive *scenario.Archive) []scenario.File {
	t.Helper()
	dir := t.TempDir()
	options := optionsIn(t, archive)
	if err := txtar.Write(archive, dir); err != nil {
		t.Fatal(err)
	}
	options.Dir = filepath.Join(dir, "in")
	bundle, summary, err := generate.Bundle(options)
	if err != nil {
		return []scenario.File{{Name: "error", Data: []byte(strings.ReplaceAll(err.Error(), dir, "DIR") + "\n")}}
	}
	checkBundle(t, options, bundle)
	return []scenario.File{{Name: "manifests.yaml", Data: bundle.Manifests}, {Name: "summary", Data: []byte(describe(summary))}}
}

// checkBundle checks that a bundle can be written and read back unchanged, and that
// a second run gives the same bundle.
func checkBundle(t *testing.T, options generate.Options, bundle extractor.Bundle) {
	t.Helper()
	again, _, err := generate.Bundle(options)
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
		t.Fatalf("reading the written bundle: %v", err)
	}
	if diff := cmp.Diff([]extractor.Bundle{bundle}, read); diff != "" {
		t.Errorf("the bundle read back differs:\n%s", diff)
	}
}

func describe(summary generate.Summary) string {
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
