// SPDX-License-Identifier: Apache-2.0

package setting

import (
	"fmt"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// ParseSpec returns the spec of a ClusterAPI object, of a patch for one, or a document that is the spec itself. Unknown fields, other kinds
// and further documents are errors: they would have no effect.
func ParseSpec(content []byte) (spec v1alpha1.ClusterAPISpec, err error) {
	if documents := yamldoc.SplitNonEmpty(content); len(documents) > 1 {
		return spec, fmt.Errorf("line %d: further document: want one", documents[1].Line)
	}
	var keys map[string]any
	if err := yaml.Unmarshal(content, &keys); err != nil {
		return spec, err
	}
	if keys["kind"] == nil && keys["spec"] == nil {
		return spec, yaml.UnmarshalStrict(content, &spec)
	}
	var cluster v1alpha1.ClusterAPI
	if err := yaml.UnmarshalStrict(content, &cluster); err != nil {
		return spec, err
	}
	if got, want := cluster.GroupVersionKind(), v1alpha1.GroupVersion.WithKind("ClusterAPI"); !got.Empty() && got != want {
		return spec, fmt.Errorf("invalid kind %s %s: want %s %s", cluster.APIVersion, cluster.Kind, v1alpha1.GroupVersion, want.Kind)
	}
	return cluster.Spec, nil
}
