// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/internal/object"
)

func TestGenerate_FilesAreCommitted(t *testing.T) {
	files, err := generate()
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("../..", name))
		if err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s differs; run make generate (-want +got):\n%s", name, diff)
		}
	}
}

// TestInstallation_HasNothingOfOpenShift walks all text except the installer's own API group and names that the program uses.
func TestInstallation_HasNothingOfOpenShift(t *testing.T) {
	objects, err := installation(v1alpha1.KubernetesNamespaces)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if object.IsCRD(o) {
			continue // its descriptions mention OpenShift
		}
		for _, text := range texts(o.Object) {
			if rest := strings.ReplaceAll(text, v1alpha1.Prefix, ""); strings.Contains(rest, "openshift") {
				t.Errorf("%s %s: %q", o.GetKind(), o.GetName(), text)
			}
		}
	}
}

// texts returns all keys and strings of a value, except resourceNames.
func texts(value any) (all []string) {
	switch value := value.(type) {
	case map[string]any:
		for key, inner := range value {
			if key != "resourceNames" {
				all = append(append(all, key), texts(inner)...)
			}
		}
	case []any:
		for _, inner := range value {
			all = append(all, texts(inner)...)
		}
	case string:
		all = append(all, value)
	}
	return all
}

func TestInstallation_RunsOnAnyNode(t *testing.T) {
	objects, err := installation(v1alpha1.Namespaces{Operator: "a", Operand: "b"})
	if err != nil {
		t.Fatal(err)
	}
	namespaces := map[string]bool{}
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			namespaces[o.GetNamespace()] = true
			continue
		}
		pod := object.MapAt(object.PodTemplate(o), "spec")
		if selector, found := pod["nodeSelector"]; found {
			t.Errorf("node selector %v", selector)
		}
		tolerations, _, _ := unstructured.NestedSlice(pod, "tolerations")
		if first := tolerations[0].(map[string]any)["key"]; first != "node-role.kubernetes.io/control-plane" {
			t.Errorf("tolerations %v", tolerations)
		}
	}
	if diff := cmp.Diff(map[string]bool{"": true, "a": true, "b": true, "default": true}, namespaces); diff != "" {
		t.Errorf("namespaces (-want +got):\n%s", diff)
	}
}

// The program reads its pod's identity from the environment: without it, a restarted container waits for its own lease.
func TestInstallation_KeepsTheEnvironment(t *testing.T) {
	objects, err := installation(v1alpha1.Namespaces{Operator: "a", Operand: "b"})
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		containers, _ := object.MapAt(object.PodTemplate(o), "spec")["containers"].([]any)
		var names []any
		for _, variable := range containers[0].(map[string]any)["env"].([]any) {
			names = append(names, variable.(map[string]any)["name"])
		}
		if diff := cmp.Diff([]any{"POD_NAME", "POD_UID", "PLATFORM"}, names); diff != "" {
			t.Errorf("environment (-want +got):\n%s", diff)
		}
	}
}
