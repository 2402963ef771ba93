// SPDX-License-Identifier: Apache-2.0

package diff_test

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	gocmp "github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// TestCompare_Scenarios compares the files below a/ and b/ of
// each archive, one file for each provider, and compares the listing with the file want.
func TestCompare_Scenarios(t *testing.T) {
	scenario.Run(t, "testdata/*.txtar", scenario.AllBut("want"), func(t *testing.T, archive *scenario.Archive) []scenario.File {
		a, b := providersIn(t, archive, "a/"), providersIn(t, archive, "b/")
		checkOrderDoesNotMatter(t, a, b)
		checkMirrored(t, a, b)
		return []scenario.File{{Name: "want", Data: []byte(listing(diff.Compare(a, b)))}}
	})
}

// providersIn returns a provider for each file in a folder, with the name of the file.
func providersIn(t *testing.T, archive *scenario.Archive, folder string) (providers []diff.Provider) {
	t.Helper()
	for _, file := range archive.Files {
		name, inside := strings.CutPrefix(file.Name, folder)
		if !inside {
			continue
		}
		p := diff.Provider{Name: strings.TrimSuffix(name, ".yaml"), Type: "infrastructure", Version: "v1.0.0"}
		first, _, _ := bytes.Cut(file.Data, []byte("\n"))
		if version, has := bytes.CutPrefix(first, []byte("# ")); has {
			p.Version = string(version)
		}
		p.Objects = objectsOf(t, file.Data)
		providers = append(providers, p)
	}
	return providers
}

func objectsOf(t *testing.T, manifests []byte) []*unstructured.Unstructured {
	t.Helper()
	objects, err := yamldoc.Objects(manifests)
	if err != nil {
		t.Fatal(err)
	}
	return objects
}

// checkOrderDoesNotMatter compares with the objects of both sides reversed.
func checkOrderDoesNotMatter(t *testing.T, a, b []diff.Provider) {
	t.Helper()
	reversed := func(side []diff.Provider) (all []diff.Provider) {
		for _, p := range side {
			p.Objects = slices.Clone(p.Objects)
			slices.Reverse(p.Objects)
			all = append(all, p)
		}
		return all
	}
	if diff := gocmp.Diff(diff.Compare(a, b), diff.Compare(reversed(a), reversed(b))); diff != "" {
		t.Errorf("with the objects in reverse order (-want +got):\n%s", diff)
	}
}

// checkMirrored compares in both directions: gained permissions are lost, and added objects are removed.
func checkMirrored(t *testing.T, a, b []diff.Provider) {
	t.Helper()
	forward, backward := diff.Compare(a, b), diff.Compare(b, a)
	if (forward.Verdict.Worst() == diff.None) != (backward.Verdict.Worst() == diff.None) {
		t.Errorf("forward: %v\nbackward: %v", forward.Verdict, backward.Verdict)
	}
	listed := func(r diff.Report, words *strings.Replacer) (all []string) {
		for _, p := range r.Providers {
			for _, c := range p.Changes {
				if strings.HasPrefix(c.Rule, "rbac/") && c.Rule != "rbac/malformed-subject" || strings.HasPrefix(c.Rule, "object/") && c.Rule != "object/immutable" {
					for _, place := range c.Places {
						all = append(all, place.Object.String()+" "+words.Replace(c.Rule+" "+c.Message))
					}
				}
			}
		}
		slices.Sort(all)
		return all
	}
	mirror := strings.NewReplacer("rbac/gained", "rbac/lost", "rbac/lost", "rbac/gained", "rbac/bound", "rbac/unbound", "rbac/unbound", "rbac/bound", "no longer ", "", "added", "removed", "removed", "added")
	if diff := gocmp.Diff(listed(forward, mirror), listed(backward, strings.NewReplacer("no longer ", ""))); diff != "" {
		t.Errorf("(-forward +backward):\n%s", diff)
	}
}

// listing formats all fields of a report as text.
func listing(r diff.Report) string {
	var out strings.Builder
	line := func(format string, args ...any) { fmt.Fprintf(&out, format+"\n", args...) }
	counts := func(c diff.Counts) string { return strings.TrimPrefix(fmt.Sprint(c), "map") }
	line("%s: %s", cmp.Or(r.Verdict.Worst(), "same"), counts(r.Verdict))
	for _, p := range r.Providers {
		line("%s %s -> %s is %s: %s", p.Name, cmp.Or(p.Versions[0], "none"), cmp.Or(p.Versions[1], "none"), p.Outcome, counts(p.Counts))
		for _, c := range p.Changes {
			line("  %s %s %s", c.Level, c.Rule, changeText(c))
			if strings.HasPrefix(c.Rule, "rbac/") && c.Consequence != "" {
				line("    %s", c.Consequence)
			}
			for _, place := range c.Places {
				line("    @%s", strings.TrimRight(fmt.Sprintf("%s %s %s", place.Object, place.Version, place.Path), " "))
			}
		}
	}
	return out.String()
}

func changeText(c diff.Change) string {
	text := strings.TrimSpace(strings.TrimSpace(c.Version+" "+c.Path) + ": " + c.Message)
	if c.From != nil || c.To != nil {
		text += " " + compact(c.From) + " -> " + compact(c.To)
	}
	return text
}

func compact(value any) string {
	encoded, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(encoded)
}
