// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"fmt"
	"path/filepath"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/internal/object"
)

// ObjectName identifies an object in the output of kustomize. Objects in different
// namespaces can have the same ObjectName.
type ObjectName struct{ Kind, Name string }

// Origins returns the files that kustomize reads the objects of a directory from,
// relative to dir. It omits objects that are generated, come from a URL or are
// renamed by a function. Like Render, it writes warnings to standard error.
func Origins(dir string) (map[ObjectName]string, error) {
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", dir, err)
	}
	divided, err := planOf(absolute)
	if err != nil {
		return nil, fmt.Errorf("reading the transformers: %w", err)
	}
	if divided.rest, err = withOriginAnnotations(divided.rest); err != nil {
		return nil, err
	}
	resources, err := run(&textFiles{FileSystem: dividedFiles{filesys.MakeFsOnDisk(), divided}}, absolute)
	if err != nil {
		return nil, err
	}
	origins := map[ObjectName]string{}
	for _, r := range resources.Resources() {
		if origin, err := r.GetOrigin(); err == nil && origin != nil && origin.Path != "" && origin.Repo == "" {
			origins[ObjectName{r.GetKind(), r.GetName()}] = filepath.FromSlash(origin.Path)
		}
	}
	return origins, nil
}

// withOriginAnnotations returns a kustomization that annotates objects with their origin.
func withOriginAnnotations(kustomization []byte) ([]byte, error) {
	fields := map[string]any{}
	if err := yaml.Unmarshal(kustomization, &fields); err != nil {
		return nil, err
	}
	options := []any{types.OriginAnnotations}
	for _, option := range object.TextsAt(fields, "buildMetadata") {
		options = append(options, option)
	}
	fields["buildMetadata"] = options
	return yaml.Marshal(fields)
}
