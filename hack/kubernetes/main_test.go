// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/hack/generated"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

func TestGenerate_FilesAreCommitted(t *testing.T) { generated.Committed(t, generate) }

// TestInstallation_HasNothingOfOpenShift walks all text except the installer's own API group and names that the program uses.
func TestInstallation_HasNothingOfOpenShift(t *testing.T) {
	objects, err := installation(v1alpha1.KubernetesNamespaces)
	must(t, err)
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
	must(t, err)
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
	must(t, err)
	for _, o := range objects {
		if o.GetKind() != "Deployment" {
			continue
		}
		containers, _ := object.MapAt(object.PodTemplate(o), "spec")["containers"].([]any)
		var names []any
		for _, variable := range containers[0].(map[string]any)["env"].([]any) {
			names = append(names, variable.(map[string]any)["name"])
		}
		if diff := cmp.Diff([]any{"POD_NAME", "POD_UID", "GOMEMLIMIT", "PLATFORM"}, names); diff != "" {
			t.Errorf("environment (-want +got):\n%s", diff)
		}
	}
}

// The component has the same result as the generator with other names, with the kustomization of docs/install.md and everything else
// that can be in it.
func TestNamespacesComponent_ReplacesAllNames(t *testing.T) {
	want, err := installation(v1alpha1.Namespaces{Operator: "my-installer", Operand: "my-providers"})
	must(t, err)
	page, err := os.ReadFile("../../docs/install.md")
	must(t, err)
	_, text, _ := strings.Cut(string(page), "## Other namespaces")
	_, text, _ = strings.Cut(text, "```yaml\n")
	text, _, _ = strings.Cut(text, "```")
	text += "- {name: cluster-api-installer-images, namespace: capi-installer-system, behavior: merge, literals: [platform=None]}\n" +
		"resources: [capi-installer/deploy/kubernetes, capi-installer/deploy/monitoring, more]\n"
	folder := t.TempDir()
	root, err := filepath.Abs("../..")
	must(t, err)
	if root, err = filepath.Rel(folder, root); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{
		"kustomization.yaml":      text,
		"more/kustomization.yaml": "{namespace: more, resources: [capi-installer/deploy/kubernetes/providers-namespace]}", // as docs/install.md describes
	} {
		file := filepath.Join(folder, name)
		base, _ := filepath.Rel(filepath.Dir(name), ".")
		text = strings.ReplaceAll(text, "capi-installer/deploy", filepath.Join(base, root, "deploy"))
		must(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600)))
	}
	result, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	must(t, err)
	rendered, err := result.AsYaml()
	must(t, err)
	if old := regexp.MustCompile(`.*\b(capi-installer-system|capi-system|capi-installer-namespaces)\b.*`).FindAllString(string(rendered), -1); len(old) > 0 {
		t.Errorf("lines with the former names:\n%s", strings.Join(old, "\n"))
	}
	objects, err := yamldoc.Objects(rendered)
	must(t, err)
	got := map[string]*unstructured.Unstructured{}
	for _, o := range objects {
		got[o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = o
	}
	for _, o := range want {
		if name := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName(); o.GetKind() == "Deployment" { // the hooks are in it, too
			if got[name] == nil || !strings.Contains(string(rendered), "- --providers-namespace=my-providers\n") {
				t.Errorf("%s not found with its argument", name)
			}
		} else if got[name] == nil || !cmp.Equal(o.Object, got[name].Object) {
			t.Errorf("%s differs: %s", name, cmp.Diff(o, got[name]))
		}
	}
}

// must ends the test at an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
