// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kustomize "sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// ownNamespaces are the namespaces of the product. All others belong to the cluster or to other products.
var ownNamespaces = []string{
	v1alpha1.OpenShiftNamespaces.Operator, v1alpha1.OpenShiftNamespaces.Operand,
	v1alpha1.KubernetesNamespaces.Operator, v1alpha1.KubernetesNamespaces.Operand,
}

// kustomizations returns the folders of this repository with a kustomization that users apply, and the components.
func kustomizations(t *testing.T) (bases, components []string) {
	t.Helper()
	for _, root := range []string{".", "../deploy"} {
		err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
			if err != nil || entry.Name() != "kustomization.yaml" {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			kustomization := kustomize.Kustomization{}
			if err := yaml.Unmarshal(content, &kustomization); err != nil {
				return err
			}
			if kustomization.Kind == kustomize.ComponentKind {
				components = append(components, filepath.Dir(path))
			} else {
				bases = append(bases, filepath.Dir(path))
			}
			return nil
		})
		must(t, err)
	}
	if len(bases) < 3 || len(components) < 2 {
		t.Fatalf("kustomizations %v, components %v", bases, components)
	}
	return bases, components
}

// TestKustomizations_ContainOnlyOwnObjects: "kubectl delete -k" deletes every object of a kustomization.
func TestKustomizations_ContainOnlyOwnObjects(t *testing.T) {
	bases, components := kustomizations(t)
	objects := map[string][]*unstructured.Unstructured{}
	for _, base := range bases {
		objects[base] = built(t, base)
	}
	for _, component := range components {
		objects[component] = withComponent(t, filepath.Dir(filepath.Dir(component)), component)
	}
	for from, objects := range objects {
		for _, o := range objects {
			if !ownObject(o) {
				t.Errorf("%s contains %s: it belongs to the cluster, and an uninstallation would delete it", from, named(o))
			}
			if labelled := o.GetLabels()["app.kubernetes.io/component"] == "namespace"; labelled != (o.GetKind() == "Namespace") {
				t.Errorf("%s: %s: label app.kubernetes.io/component=namespace: %t; the documented uninstallation deletes all objects without it", from, named(o), labelled)
			}
		}
	}
}

// ownObject reports whether an object belongs to the product by its name and namespace.
func ownObject(o *unstructured.Unstructured) bool {
	if o.GetKind() == "Namespace" {
		return slices.Contains(ownNamespaces, o.GetName())
	}
	return slices.Contains(ownNamespaces, o.GetNamespace()) || strings.Contains(o.GetName(), "capi-installer") || strings.Contains(o.GetName(), "cluster-api-installer") || strings.HasSuffix(o.GetName(), "."+v1alpha1.Prefix)
}

// TestDocuments_DeleteNoNamespace: a namespace contains objects of users.
func TestDocuments_DeleteNoNamespace(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	must(t, err)
	for _, page := range append(pages, "../README.md") {
		content, err := os.ReadFile(page)
		must(t, err)
		for line := range strings.Lines(string(content)) {
			words := strings.Fields(line)
			if len(words) > 2 && words[0] == "kubectl" && words[1] == "delete" && (strings.HasPrefix(words[2], "namespace") || words[2] == "ns") {
				t.Errorf("%s: %s", page, line)
			}
			if strings.Contains(line, "kubectl delete -") && (strings.Contains(line, " -k ") || strings.Contains(line, " -f ")) && !strings.Contains(line, "app.kubernetes.io/component!=namespace") {
				t.Errorf("%s: %sdeletes the namespaces and the users' objects in them", page, line)
			}
		}
	}
}
