// SPDX-License-Identifier: Apache-2.0

package kustomize

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/capi-installer/capi-installer/internal/parallel"
)

// Render returns the objects of a kustomize directory, as "kustomize build" prints them.
// Of functions in containers it runs kpt's starlark function, in process; other plugins and
// helm are off. kustomize writes its deprecation warnings to standard error.
func Render(dir string) ([]*unstructured.Unstructured, error) {
	if err := checkDir(dir); err != nil {
		return nil, err
	}
	// A relative path with an @ in it is a git URL to kustomize; an absolute one never is.
	absolute, err := filepath.Abs(dir)
	if err != nil {
		return nil, fmt.Errorf("finding %s: %w", dir, err)
	}
	divided, err := planOf(absolute)
	if err != nil {
		return nil, fmt.Errorf("reading the transformers: %w", err)
	}
	files := filesys.MakeFsOnDisk()
	if len(divided.functions) > 0 {
		files = dividedFiles{files, divided}
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(files, absolute)
	if err != nil {
		return nil, fmt.Errorf("running kustomize: %w", err)
	}
	objects, err := parallel.TryMap(resources.Resources(), decode)
	if err != nil || len(divided.functions) == 0 {
		return objects, err
	}
	return divided.run(objects)
}

// checkDir returns an error that is easier to understand than that of kustomize.
func checkDir(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return &fs.PathError{Op: "open", Path: dir, Err: errors.New("not a directory; name the directory that holds the kustomization.yaml")}
	}
	return nil
}

func decode(resource *resource.Resource) (*unstructured.Unstructured, error) {
	encoded, err := resource.MarshalJSON()
	if err != nil {
		return nil, fmt.Errorf("encoding %s: %w", resource.CurId(), err)
	}
	obj := &unstructured.Unstructured{}
	if err := obj.UnmarshalJSON(encoded); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", resource.CurId(), err)
	}
	return obj, nil
}
