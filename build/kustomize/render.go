// SPDX-License-Identifier: Apache-2.0

package build

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/api/resource"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/kustomize/kyaml/yaml"
)

// texts are texts and the quotes that they are written in.
type texts map[string]yaml.Style

// renderKustomize returns the objects of a kustomize directory, and those of their
// texts with a ${VARIABLE} that were written in quotes. Quotes matter: "${X}" stays
// a text when a cluster puts true in it, and ${X} becomes a boolean.
// Plugins and helm are off. kustomize writes its deprecation warnings to standard error.
func renderKustomize(dir string) ([]*unstructured.Unstructured, texts, error) {
	if err := checkDir(dir); err != nil {
		return nil, nil, err
	}
	// A relative path with an @ in it is a git URL to kustomize; an absolute one never is.
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, nil, fmt.Errorf("finding %s: %w", dir, err)
	}
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		return nil, nil, fmt.Errorf("running kustomize: %w", err)
	}
	quoted := texts{}
	for _, resource := range resources.Resources() {
		quoted.addQuoted(resource.YNode())
	}
	objects, err := concurrently(resources.Resources(), decode)
	return objects, quoted, err
}

// checkDir says what kustomize would say less plainly.
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
	object := &unstructured.Unstructured{}
	if err := object.UnmarshalJSON(encoded); err != nil {
		return nil, fmt.Errorf("decoding %s: %w", resource.CurId(), err)
	}
	return object, nil
}

// addQuoted adds the texts below node that are written in quotes and have a variable in them.
func (t texts) addQuoted(node *yaml.Node) {
	if node == nil {
		return
	}
	quotes := node.Style & (yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle)
	if node.Kind == yaml.ScalarNode && quotes != 0 && strings.Contains(node.Value, "${") {
		t[node.Value] = quotes
	}
	for _, child := range node.Content {
		t.addQuoted(child)
	}
}
