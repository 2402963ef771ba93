// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// releaseAnnotations are the annotations that the cluster version operator reads on every object: the capability and the
// feature gate that the object belongs to, and the cluster profiles with and without it.
var releaseAnnotations = map[string]string{
	"capability.openshift.io/name":                                string(configv1.ClusterVersionCapabilityClusterAPI),
	"release.openshift.io/feature-gate":                           "ClusterAPIMachineManagement",
	"include.release.openshift.io/self-managed-high-availability": "true",
	"include.release.openshift.io/single-node-developer":          "true",
	"exclude.release.openshift.io/internal-openshift-hosted":      "true",
}

// furtherAnnotations are the other annotations of the cluster version operator, by "Kind namespace/name".
var furtherAnnotations = map[string]map[string]string{
	"ClusterAPI /cluster": {"release.openshift.io/create-only": "true"},
	"Deployment openshift-cluster-api-operator/capi-operator":                         tombstone,
	"ServiceAccount openshift-cluster-api-operator/capi-operator":                     tombstone,
	"Service openshift-cluster-api-operator/capi-operator-metrics":                    tombstone,
	"ServiceMonitor openshift-cluster-api-operator/capi-operator":                     tombstone,
	"NetworkPolicy openshift-cluster-api-operator/allow-egress-operators":             tombstone,
	"ClusterRole /openshift-capi-operator":                                            tombstone,
	"ClusterRoleBinding /openshift-capi-operator":                                     tombstone,
	"ClusterRole /openshift-capi-installer:provider-permissions":                      tombstone,
	"ClusterRoleBinding /system:openshift:capi-operator-read-tls-configuration":       tombstone,
	"ClusterRoleBinding /system:openshift:capi-installer-read-tls-configuration":      tombstone,
	"Role openshift-cluster-api-operator/capi-operator":                               tombstone,
	"RoleBinding openshift-cluster-api-operator/capi-operator":                        tombstone,
	"Role openshift-cluster-api/capi-operator":                                        tombstone,
	"RoleBinding openshift-cluster-api/capi-operator":                                 tombstone,
	"Role openshift-machine-api/capi-installer":                                       tombstone,
	"RoleBinding openshift-machine-api/capi-installer":                                tombstone,
	"ClusterRoleBinding /system:openshift:capi-installer":                             tombstone,
	"ClusterRoleBinding /system:openshift:capi-installer:provider-permissions":        tombstone,
	"ClusterRoleBinding /openshift-capi-installer":                                    tombstone,
	"ClusterRole /openshift-capi-installer":                                           tombstone,
	"RoleBinding openshift-cluster-api-operator/capi-installer":                       tombstone,
	"Role openshift-cluster-api-operator/capi-installer":                              tombstone,
	"RoleBinding openshift-cluster-api/capi-installer":                                tombstone,
	"Role openshift-cluster-api/capi-installer":                                       tombstone,
	"ServiceAccount openshift-cluster-api-operator/capi-installer":                    tombstone,
	"ConfigMap openshift-cluster-api-operator/capi-installer-images":                  tombstone,
	"NetworkPolicy openshift-cluster-api-operator/allow-ingress-to-metrics-operators": tombstone,
	"NetworkPolicy openshift-cluster-api-operator/default-deny":                       tombstone,
}

var tombstone = map[string]string{"release.openshift.io/delete": "true"}

// fileObjects returns the objects in the files that match a pattern.
func fileObjects(t *testing.T, pattern string) []*unstructured.Unstructured {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("no files %s: %v", pattern, err)
	}
	var found []*unstructured.Unstructured
	for _, file := range files {
		content, err := os.ReadFile(file)
		must(t, err)
		found = append(found, decodeAll(t, content)...)
	}
	return found
}

func decodeAll(t *testing.T, content []byte) []*unstructured.Unstructured {
	t.Helper()
	found, err := yamldoc.Objects(content)
	must(t, err)
	return found
}

func named(object *unstructured.Unstructured) string {
	return object.GetKind() + " " + object.GetNamespace() + "/" + object.GetName()
}

// TestManifests_AnnotatedForRelease compares the release annotations of every file with the tables. An object cannot be both a
// tombstone and applied.
func TestManifests_AnnotatedForRelease(t *testing.T) {
	missing := map[string]bool{}
	for name := range furtherAnnotations {
		missing[name] = true
	}
	for _, object := range append(fileObjects(t, "0000_*.yaml"), fileObjects(t, "components/*/scc.yaml")...) {
		want := map[string]string{}
		for _, table := range []map[string]string{releaseAnnotations, furtherAnnotations[named(object)]} {
			maps.Copy(want, table)
		}
		delete(missing, named(object))
		got := map[string]string{}
		for key, value := range object.GetAnnotations() {
			if strings.Contains(key, "release.openshift.io/") || strings.HasPrefix(key, "capability.openshift.io/") {
				got[key] = value
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", named(object), diff)
		}
	}
	for name := range missing {
		t.Errorf("%s is in the table and in no file", name)
	}
}

// TestClusterOperator_DeclaresVersion: the cluster version operator rejects a ClusterOperator without expected versions.
func TestClusterOperator_DeclaresVersion(t *testing.T) {
	for _, object := range objects(t) {
		if object.GetKind() != "ClusterOperator" {
			continue
		}
		versions, _, _ := unstructured.NestedSlice(object.Object, "status", "versions")
		want := []any{map[string]any{"name": "operator", "version": "0.0.1-snapshot"}}
		if diff := cmp.Diff(want, versions); diff != "" {
			t.Errorf("status.versions (-want +got):\n%s", diff)
		}
		return
	}
	t.Error("ClusterOperator not found")
}

// TestNamespaces_PodSecurity compares the labels about pod security with OpenShift's own namespace, and with the component.
func TestNamespaces_PodSecurity(t *testing.T) {
	restricted := map[string]string{"pod-security.kubernetes.io/enforce": "restricted", "pod-security.kubernetes.io/audit": "restricted", "pod-security.kubernetes.io/warn": "restricted"}
	for component, providers := range map[string]map[string]string{
		"": {
			"openshift.io/run-level":             "0",
			"pod-security.kubernetes.io/enforce": "privileged", "pod-security.kubernetes.io/audit": "privileged", "pod-security.kubernetes.io/warn": "privileged",
		},
		"restricted": restricted,
	} {
		want := map[string]map[string]string{"openshift-cluster-api-operator": restricted, "openshift-cluster-api": providers}
		got := map[string]map[string]string{}
		for _, object := range kustomized(t, component) {
			if object.GetKind() == "Namespace" {
				got[object.GetName()] = podSecurity(object)
			}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("component %q (-want +got):\n%s", component, diff)
		}
	}
}

func podSecurity(namespace *unstructured.Unstructured) map[string]string {
	found := map[string]string{}
	for key, value := range namespace.GetLabels() {
		if key == "openshift.io/run-level" || strings.HasPrefix(key, "pod-security.kubernetes.io/") {
			found[key] = value
		}
	}
	return found
}

// TestRestrictedComponent_GrantsNonrootV2 compares the objects that the component adds.
func TestRestrictedComponent_GrantsNonrootV2(t *testing.T) {
	base := map[string]bool{}
	for _, object := range kustomized(t, "") {
		base[named(object)] = true
	}
	var added []map[string]any
	for _, object := range kustomized(t, "restricted") {
		if !base[named(object)] {
			added = append(added, map[string]any{"name": named(object), "roleRef": object.Object["roleRef"], "subjects": object.Object["subjects"]})
		}
	}
	want := []map[string]any{{
		"name":     "RoleBinding openshift-cluster-api/providers-nonroot-v2",
		"roleRef":  map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "system:openshift:scc:nonroot-v2"},
		"subjects": []any{map[string]any{"apiGroup": "rbac.authorization.k8s.io", "kind": "Group", "name": "system:serviceaccounts:openshift-cluster-api"}},
	}}
	if diff := cmp.Diff(want, added); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// kustomized builds the manifests, with a component unless it is empty.
func kustomized(t *testing.T, component string) []*unstructured.Unstructured {
	t.Helper()
	if component == "" {
		return built(t, ".")
	}
	return withComponent(t, ".", filepath.Join("components", component))
}

// withComponent returns the objects of a kustomization with a component.
func withComponent(t *testing.T, base, component string) []*unstructured.Unstructured {
	t.Helper()
	folder := t.TempDir()
	var from [2]string
	for i, path := range []string{base, component} {
		absolute, err := filepath.Abs(path)
		if err == nil {
			from[i], err = filepath.Rel(folder, absolute)
		}
		must(t, err)
	}
	text := "resources: [" + from[0] + "]\ncomponents: [" + from[1] + "]\n"
	if filepath.Base(component) == "namespaces" { // its input is required
		text += "configMapGenerator: [{name: capi-installer-namespaces, literals: [installer=capi-installer-system, providers=capi-system]}]\n"
	}
	must(t, os.WriteFile(filepath.Join(folder, "kustomization.yaml"), []byte(text), 0o600))
	return built(t, folder)
}

// built returns the objects of a kustomization.
func built(t *testing.T, folder string) []*unstructured.Unstructured {
	t.Helper()
	result, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	must(t, err)
	content, err := result.AsYaml()
	must(t, err)
	return decodeAll(t, content)
}
