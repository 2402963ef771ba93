// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"bytes"
	"testing"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// FuzzRender looks for manifests and values that make Render panic, or that give
// objects which break what Render promises.
func FuzzRender(f *testing.F) {
	for _, archive := range scenario.Archives(f, "testdata/render/*.txtar") {
		for _, file := range archive.Files {
			f.Add(file.Data, "VAR", "value")
		}
	}
	f.Fuzz(func(t *testing.T, manifests []byte, variable, value string) {
		const placeholder = "registry.example.com/openshift:aws"
		bundle := extractor.Bundle{
			Origin:    extractor.Origin{Name: "aws", Image: testImage},
			Metadata:  extractor.Metadata{ImageName: placeholder},
			Manifests: manifests,
		}
		before := bytes.Clone(manifests)
		set, err := Render([]extractor.Bundle{bundle}, map[string]string{variable: value})
		if !bytes.Equal(before, manifests) {
			t.Error("the manifests have been changed")
		}
		if err != nil {
			checkTyped(t, err)
			return
		}
		if len(set.Operands[0].Objects) == 0 {
			t.Error("no object and no error")
		}
		for _, obj := range set.Operands[0].Objects {
			if obj.GetKind() == "" || obj.GetName() == "" || obj.GetAPIVersion() == "" {
				t.Errorf("object without identity: %v", obj.Object)
			}
			for _, container := range containers(obj) {
				if image, _ := container["image"].(string); !pinned(image) || image == placeholder {
					t.Errorf("image %q of %s", image, describe(obj))
				}
			}
		}
	})
}

// FuzzSubstitute looks for text that makes substitution panic or change what is
// not an expression.
func FuzzSubstitute(f *testing.F) {
	for _, text := range []string{
		"", "$", "${", "${}", "${A}", "$${A}", "${A:=b}", "${A:=${B:=c}}", "${A/b/c}", "${A//b/c}", "${A:1:2}", "${A^^}${A,,}",
		"${A:-1}", "${A#x}", "${A##x}", "${A%x}", "${A%%*}", "${A:=\x00}", "${A:=\n}", "${A:99}", "${A: -1}", "${A/#a/\\/}",
	} {
		f.Add([]byte(text), "value")
	}
	f.Fuzz(func(t *testing.T, text []byte, value string) {
		failed := false
		out := substitute(text, map[string]string{"A": value}, func(offset int, _ error) {
			failed = true
			if !bytes.HasPrefix(text[offset:], []byte("${")) {
				t.Errorf("no expression at offset %d", offset)
			}
		})
		if !bytes.Contains(text, []byte("${")) && (failed || !bytes.Equal(out, text)) {
			t.Errorf("%q has become %q", text, out)
		}
	})
}
