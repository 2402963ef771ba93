// SPDX-License-Identifier: Apache-2.0

package manifests_test

import (
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// predecessorObject is an object in a list of docs/maintainers/openshift-objects.md; the heading of the list names its owner.
type predecessorObject struct{ name, owner, role string }

func predecessorObjects(t *testing.T) []predecessorObject {
	t.Helper()
	content, err := os.ReadFile("../docs/maintainers/openshift-objects.md")
	must(t, err)
	_, lists, _ := strings.Cut(string(content), "\n## Objects\n")
	var rows []predecessorObject
	for _, list := range strings.Split(lists, "\n### ")[1:] {
		owner, list, _ := strings.Cut(list, "\n")
		for _, match := range regexp.MustCompile(`(?m)^- ([A-Z]\S+ [^\s:]\S*?)(?:: (.*))?$`).FindAllStringSubmatch(list, -1) {
			rows = append(rows, predecessorObject{match[1], owner, match[2]})
		}
	}
	if len(rows) != 88 {
		t.Fatalf("%d objects of cluster-capi-operator, want 88", len(rows))
	}
	return rows
}

// TestPredecessorObjects_HaveAnOwner: each object of cluster-capi-operator is shipped, deleted, or stays with it, as the
// lists say; and no binding refers to a deleted role.
func TestPredecessorObjects_HaveAnOwner(t *testing.T) {
	shipped, deleted := identitySet(fileObjects(t, "0000_*.yaml")), map[string]bool{}
	for name := range identitySet(tombstones(t)) {
		deleted[name] = true
		delete(shipped, name)
	}
	for _, row := range predecessorObjects(t) {
		if want := row.owner == "Shipped by this release"; shipped[row.name] != want {
			t.Errorf("%s: %s, shipped %t", row.name, row.owner, shipped[row.name])
		}
		if want := row.owner == "Deleted"; deleted[row.name] != want {
			t.Errorf("%s: %s, deleted %t", row.name, row.owner, deleted[row.name])
		}
		if deleted[row.role] && !deleted[row.name] {
			t.Errorf("%s stays, and its role is deleted: %s", row.name, row.role)
		}
	}
}

// TestWayBack_DeletesTheOwnObjects: the documented commands delete each object of the release that cluster-capi-operator's release lacks, in every
// namespace. The namespaces and the Deployment are in both releases, and the ClusterAPI object is deleted before.
func TestWayBack_DeletesTheOwnObjects(t *testing.T) {
	staying := map[string]bool{}
	for name := range identitySet(tombstones(t)) {
		staying[name] = true
	}
	for _, row := range predecessorObjects(t) {
		staying[row.name] = true
	}
	const crdDeletion = "openshift-capi-installer-crd-deletion" // the installer creates this policy while it deletes CRDs
	inNamespace := map[string][]string{"": {"validatingadmissionpolicybinding/" + crdDeletion, "validatingadmissionpolicy/" + crdDeletion}}
	for _, object := range fileObjects(t, "0000_*.yaml") {
		name := object.GetKind() + " " + strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
		if staying[name] || slices.Contains([]string{"Namespace", "ClusterAPI", "Deployment"}, object.GetKind()) {
			continue
		}
		inNamespace[object.GetNamespace()] = append(inNamespace[object.GetNamespace()], strings.ToLower(object.GetKind())+"/"+object.GetName())
	}
	var commands []string
	for _, namespace := range slices.Sorted(maps.Keys(inNamespace)) {
		command := "kubectl delete --ignore-not-found"
		if namespace != "" {
			command += " -n " + namespace
		}
		slices.Sort(inNamespace[namespace])
		commands = append(commands, command+" "+strings.Join(inNamespace[namespace], " "))
	}
	want := "No release\ndeletes them:\n\n```sh\n" + strings.Join(commands, "\n") + "\n```\n"
	page, err := os.ReadFile("../docs/openshift.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(page), want) {
		t.Errorf("docs/openshift.md lacks:\n%s", want)
	}
}

// tombstones returns the objects of cluster-capi-operator that the release deletes.
func tombstones(t *testing.T) []*unstructured.Unstructured {
	t.Helper()
	return slices.DeleteFunc(fileObjects(t, "0000_*.yaml"), func(object *unstructured.Unstructured) bool {
		return object.GetAnnotations()["release.openshift.io/delete"] != "true"
	})
}

// identitySet returns the "Kind namespace/name" of objects. The ClusterAPI of the installer's own API is not the one of OpenShift.
func identitySet(objects []*unstructured.Unstructured) map[string]bool {
	found := map[string]bool{}
	for _, object := range objects {
		name := object.GetKind() + " " + strings.TrimPrefix(object.GetNamespace()+"/"+object.GetName(), "/")
		found[name] = object.GetKind() != "ClusterAPI"
	}
	return found
}

// The permissions of each release belong to a ServiceAccount of its own, so that the account of one is not powerful in the other.
func TestBindings_OnlyOfTheOwnAccount(t *testing.T) {
	tombstoned := map[string]bool{}
	for _, object := range tombstones(t) {
		tombstoned[named(object)] = true
	}
	bindings := 0
	for _, object := range objects(t) {
		subjects, found, _ := unstructured.NestedSlice(object.Object, "subjects")
		if !found || tombstoned[named(object)] {
			continue
		}
		for _, subject := range subjects {
			bindings++
			if name, _, _ := unstructured.NestedString(subject.(map[string]any), "name"); name == "capi-installer" {
				t.Errorf("%s gives permissions to the ServiceAccount of cluster-capi-operator", named(object))
			}
		}
	}
	if bindings == 0 {
		t.Error("no bindings found")
	}
}
