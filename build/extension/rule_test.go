// SPDX-License-Identifier: Apache-2.0

package extension

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// mark is a comment of a bad example with the object of a finding.
var mark = regexp.MustCompile(`(?m)# <- (.*)$`)

func TestRules_Examples(t *testing.T) {
	t.Parallel()
	topology := topologyWithCRD(t)
	for _, rule := range Rules() {
		t.Run(rule.ID, func(t *testing.T) {
			t.Parallel()
			example, err := rule.Example()
			if err != nil {
				t.Fatal(err)
			}
			for _, finding := range check(t, example.Good, topology) {
				if finding.Severity == contract.Error || finding.Rule == rule.ID {
					t.Errorf("the good example has the finding %+v", finding)
				}
			}
			var want, got []string
			for _, match := range mark.FindAllStringSubmatch(example.Bad, -1) {
				want = append(want, match[1])
			}
			for _, finding := range check(t, example.Bad, topology) {
				if finding.Rule == rule.ID && !slices.Contains(got, finding.Object) {
					got = append(got, finding.Object)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" || len(want) == 0 {
				t.Errorf("objects of the findings in the bad example (-want +got):\n%s", diff)
			}
		})
	}
}

// check talks to the server of an example and returns the findings.
func check(t *testing.T, script string, topology *Topology) []contract.Finding {
	t.Helper()
	transcript, err := Talk(t.Context(), readScript(t, script).start(t), Options{Topology: topology})
	if err != nil {
		t.Fatal(err)
	}
	return Findings(Check(transcript, "https://127.0.0.1"))
}

// topologyWithCRD returns the example topology with a CRD of one of its templates.
func topologyWithCRD(t *testing.T) *Topology {
	t.Helper()
	crd, err := os.ReadFile("testdata/devclustertemplate.yaml")
	if err != nil {
		t.Fatal(err)
	}
	topology, err := ReadTopology(slices.Concat(exampleTopology, []byte("---\n"), crd))
	if err != nil {
		t.Fatal(err)
	}
	return topology
}

// Package rulebook of capi-manifests tests the parts that these rules share with the rules of
// build/contract.
func TestRules_HaveOneCheckAndOwnThemes(t *testing.T) {
	validate := map[string]bool{}
	for _, rule := range rules.All() {
		theme, _, _ := strings.Cut(rule.ID, "/")
		validate[theme] = true
	}
	for _, rule := range Rules() {
		if theme, _, _ := strings.Cut(rule.ID, "/"); validate[theme] {
			t.Errorf("invalid ID %q: validate has the theme %s", rule.ID, theme)
		}
		if (rule.Server == nil) == (rule.Handler == nil) {
			t.Errorf("%s checks both the server and handlers, or neither", rule.ID)
		}
	}
}

func TestMarkdown_UpToDate(t *testing.T) { scenario.Golden(t, "RULES.md", Markdown()) }
