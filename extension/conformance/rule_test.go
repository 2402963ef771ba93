// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"encoding/base64"
	"fmt"
	"net/http"
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

// A field in a name with dots, or in a list, is compared with the desired value. An empty object is no field.
func TestInPlaceDesired_FieldsOfMapsAndLists(t *testing.T) {
	t.Parallel()
	at := slices.IndexFunc(inPlaceRules, func(r Rule) bool { return r.ID == "in-place/desired" })
	for operation, want := range map[string]int{
		`{"op": "add", "path": "/spec/labels", "value": {"a.b/c": "desired"}}`: 0,
		`{"op": "add", "path": "/spec/labels", "value": {"a.b/c": "other"}}`:   1,
		`{"op": "add", "path": "/spec/taints/0/value", "value": "desired"}`:    0,
		`{"op": "add", "path": "/spec/taints/0/value", "value": "other"}`:      1,
		`{"op": "add", "path": "/status", "value": {"nested": {}}}`:            0,
	} {
		request := `{"current": {"machine": {"spec": {"taints": [{"value": "x"}]}}}, "desired": {"machine": {"spec": {"labels": {"a.b/c": "desired"}, "taints": [{"value": "desired"}]}}}}`
		answer := fmt.Sprintf(`{"status": "Success", "machinePatch": {"patchType": "JSONPatch", "patch": %q}}`, base64.StdEncoding.EncodeToString([]byte("["+operation+"]")))
		handler := &Handler{Calls: map[Variant][]Call{Real: {{Request: []byte(request), Answer: Answer{Status: http.StatusOK, Body: []byte(answer)}}}}}
		if found := inPlaceRules[at].Handler(handler); len(found) != want {
			t.Errorf("%s: %v, want %d", operation, found, want)
		}
	}
}
