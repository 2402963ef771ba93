// SPDX-License-Identifier: Apache-2.0

package planreport

import (
	"bytes"
	"fmt"
	"io"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// List returns the objects of all phases in their order as a List.
func List(phases []revision.Phase) map[string]any {
	return map[string]any{"apiVersion": "v1", "kind": "List", "items": objectsOf(phases)}
}

// WriteObjects writes the objects of all phases in their order as YAML documents.
func WriteObjects(w io.Writer, phases []revision.Phase) error {
	var out bytes.Buffer
	for _, o := range objectsOf(phases) {
		document, err := yaml.Marshal(o.Object)
		if err != nil {
			return fmt.Errorf("writing %s: %w", object.Describe(o), err)
		}
		out.WriteString("---\n")
		out.Write(document)
	}
	_, err := w.Write(out.Bytes())
	return err
}

func objectsOf(phases []revision.Phase) (objects []*unstructured.Unstructured) {
	for _, phase := range phases {
		objects = append(objects, phase.Objects...)
	}
	return objects
}
