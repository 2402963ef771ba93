// SPDX-License-Identifier: Apache-2.0

package build

import (
	"fmt"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// renderKustomize returns the objects of a kustomize directory. Plugins and helm are off.
// kustomize writes its deprecation warnings to standard error.
func renderKustomize(dir string) ([]*unstructured.Unstructured, error) {
	// A relative path with an @ in it is a git URL to kustomize; an absolute one never is.
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", dir, err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, fmt.Errorf("rendering %s: %w", dir, err)
	}
	var objects []*unstructured.Unstructured
	for _, resource := range resources.Resources() {
		encoded, err := resource.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("encoding %s: %w", resource.CurId(), err)
		}
		object := &unstructured.Unstructured{}
		if err := object.UnmarshalJSON(encoded); err != nil {
			return nil, fmt.Errorf("decoding %s: %w", resource.CurId(), err)
		}
		objects = append(objects, object)
	}
	return objects, nil
}
