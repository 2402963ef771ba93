// SPDX-License-Identifier: Apache-2.0

package diff_test

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/diff"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// FuzzCompare compares whatever there may be in manifests: it never panics, an object is
// the same as itself, and what differs is told in one direction and the other.
func FuzzCompare(f *testing.F) {
	for _, archive := range scenario.Archives(f, "testdata/*.txtar") {
		sides := map[string][]byte{}
		for _, file := range archive.Files {
			side, _, _ := strings.Cut(file.Name, "/")
			sides[side] = append(append(sides[side], "\n---\n"...), file.Data...)
		}
		f.Add(sides["a"], sides["b"])
	}
	f.Fuzz(func(t *testing.T, before, after []byte) {
		a, b := fuzzed(before), fuzzed(after)
		if report := diff.Compare(a, a); report.Verdict != (diff.Verdict{}) {
			t.Errorf("it differs from itself: %+v", report.Verdict)
		}
		there, back := diff.Compare(a, b), diff.Compare(b, a)
		if (there.Verdict.Level == diff.None) != (back.Verdict.Level == diff.None) {
			t.Errorf("there: %+v\nback: %+v", there.Verdict, back.Verdict)
		}
		if d := cmp.Diff(there, diff.Compare(a, b)); d != "" {
			t.Errorf("not the same twice:\n%s", d)
		}
	})
}

// fuzzed makes a provider of the documents that are objects.
func fuzzed(manifests []byte) []diff.Provider {
	p := diff.Provider{Name: "fuzzed"}
	for document := range bytes.SplitSeq(manifests, []byte("\n---\n")) {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(document, &o.Object); err == nil && len(o.Object) > 0 {
			p.Objects = append(p.Objects, o)
		}
	}
	return []diff.Provider{p}
}
