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

// FuzzCompare compares arbitrary manifests. Compare must never panic, must find no
// difference between an object and itself, and must find the same differences in
// both directions.
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
		if report := diff.Compare(a, a); report.Verdict.Worst() != diff.None {
			t.Errorf("an object differs from itself: %+v", report.Verdict)
		}
		forward, backward := diff.Compare(a, b), diff.Compare(b, a)
		if (forward.Verdict.Worst() == diff.None) != (backward.Verdict.Worst() == diff.None) {
			t.Errorf("forward: %+v\nbackward: %+v", forward.Verdict, backward.Verdict)
		}
		if d := cmp.Diff(forward, diff.Compare(a, b)); d != "" {
			t.Errorf("not deterministic:\n%s", d)
		}
	})
}

// fuzzed returns a provider with the documents that are valid objects.
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
