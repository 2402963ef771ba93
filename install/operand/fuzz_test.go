// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"bytes"
	"testing"

	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/test/scenario"
)

// FuzzRender searches for manifests and values that make Render panic or return
// objects that violate its guarantees.
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
		set, err := Render(Inputs{Bundles: []extractor.Bundle{bundle}, Variables: map[string]string{variable: value}})
		if !bytes.Equal(before, manifests) {
			t.Error("Render modified the manifests")
		}
		if err != nil {
			checkTyped(t, err)
			return
		}
		if len(set.Operands[0].Objects) == 0 {
			t.Error("got neither an object nor an error")
		}
		for _, obj := range set.Operands[0].Objects {
			if obj.GetKind() == "" || obj.GetName() == "" || obj.GetAPIVersion() == "" {
				t.Errorf("object without identity: %v", obj.Object)
			}
			for _, container := range object.Containers(obj) {
				if image, _ := container["image"].(string); !object.IsPinned(image) || image == placeholder {
					t.Errorf("image %q of %s", image, object.Describe(obj))
				}
			}
		}
	})
}
