// SPDX-License-Identifier: Apache-2.0

package predecessor_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/install/predecessor"
)

const installed = `
apiVersion: v1
kind: ConfigMap
metadata:
  name: settings
  labels:
    app.kubernetes.io/managed-by: boxcutter
    capi-operator.openshift.io/managed-by: aws
  annotations:
    capi-operator.openshift.io/revision: "7"
  managedFields:
  - manager: kubectl
    operation: Update
    apiVersion: v1
    fieldsType: FieldsV1
    fieldsV1: {"f:data": {"f:users": {}}}
  - manager: capi-operator.openshift.io/InstallerController
    operation: Apply
    apiVersion: v1
    fieldsType: FieldsV1
    fieldsV1: {"f:metadata": {"f:labels": {"f:app.kubernetes.io/managed-by": {}, "f:capi-operator.openshift.io/managed-by": {}}, "f:annotations": {"f:capi-operator.openshift.io/revision": {}}}, "f:data": {"f:a": {}}}
data: {a: b, users: c}
`

func object(t *testing.T, edit func(*unstructured.Unstructured)) *unstructured.Unstructured {
	t.Helper()
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(installed), &o.Object); err != nil {
		t.Fatal(err)
	}
	if edit != nil {
		edit(o)
	}
	return o
}

// own replaces the fields that the predecessor owns.
func own(o *unstructured.Unstructured, fields string) {
	entries := o.GetManagedFields()
	entries[1].FieldsV1 = &metav1.FieldsV1{}
	if err := entries[1].FieldsV1.UnmarshalJSON([]byte(fields)); err != nil {
		panic(err)
	}
	o.SetManagedFields(entries)
}

func TestOwns(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*unstructured.Unstructured)
		want bool
	}{
		"as installed": {nil, true},
		"created and never applied": {func(o *unstructured.Unstructured) {
			fields := o.GetManagedFields()
			fields[1].Operation = metav1.ManagedFieldsOperationUpdate
			o.SetManagedFields(fields)
		}, true},
		"labels without its fields": {func(o *unstructured.Unstructured) { o.SetManagedFields(o.GetManagedFields()[:1]) }, false},
		"without a component": {func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "boxcutter"})
		}, false},
		"of another boxcutter": {func(o *unstructured.Unstructured) { o.SetAnnotations(nil) }, false},
		"with an invalid number": {func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{"capi-operator.openshift.io/revision": "x"})
		}, false},
		"with the fields of its label only": {func(o *unstructured.Unstructured) {
			own(o, `{"f:metadata": {"f:labels": {"f:capi-operator.openshift.io/managed-by": {}}}}`)
		}, false},
		"with the fields of its annotation only": {func(o *unstructured.Unstructured) {
			own(o, `{"f:metadata": {"f:annotations": {"f:capi-operator.openshift.io/revision": {}}}}`)
		}, false},
		"with its fields in the status only": {func(o *unstructured.Unstructured) {
			fields := o.GetManagedFields()
			fields[1].Subresource = "status"
			o.SetManagedFields(fields)
		}, false},
		"managed by another program": {func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{"app.kubernetes.io/managed-by": "Helm", "capi-operator.openshift.io/managed-by": "aws"})
		}, false},
		"with an owner that is not a controller": {func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Deployment", Name: "other"}})
		}, true},
		"with a controller": {func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Deployment", Name: "other", Controller: new(true)}})
		}, false},
		"of a version": {func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{"capi-operator.openshift.io/revision": "7", "capi-operator.openshift.io/owners": "[]"})
		}, false},
	} {
		if got := predecessor.Owns(object(t, test.edit)); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
	if number, _ := predecessor.Revision(object(t, nil)); number != 7 {
		t.Errorf("revision %d", number)
	}
}

func TestHandOver_MetadataOnly(t *testing.T) {
	before := object(t, nil)
	after, err := predecessor.HandOver(before)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(object(t, nil).Object, before.Object); diff != "" {
		t.Errorf("the argument has changed:\n%s", diff)
	}
	if predecessor.Owns(after) || !predecessor.HandedOver(after) || predecessor.HandedOver(before) {
		t.Errorf("owned %t, handed over %t, before %t", predecessor.Owns(after), predecessor.HandedOver(after), predecessor.HandedOver(before))
	}
	var managers []string
	for _, entry := range after.GetManagedFields() {
		managers = append(managers, entry.Manager+" "+string(entry.Operation))
	}
	if diff := cmp.Diff([]string{"kubectl Update", "capi-operator.openshift.io Apply"}, managers); diff != "" {
		t.Errorf("managers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(before.Object["data"], after.Object["data"]); diff != "" {
		t.Errorf("data (-before +after):\n%s", diff)
	}
}

func TestHandedOver(t *testing.T) {
	for name, test := range map[string]struct {
		edit func(*unstructured.Unstructured)
		want bool
	}{
		"handed over": {func(*unstructured.Unstructured) {}, true},
		"applied since": {func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{"capi-operator.openshift.io/revision": "8"})
		}, false},
		"with an owner": {func(o *unstructured.Unstructured) {
			o.SetAnnotations(map[string]string{"capi-operator.openshift.io/owners": "[]"})
		}, false},
		"with a controller": {func(o *unstructured.Unstructured) {
			o.SetOwnerReferences([]metav1.OwnerReference{{Kind: "Deployment", Name: "other", Controller: new(true)}})
		}, false},
		"without its labels":     {func(o *unstructured.Unstructured) { o.SetLabels(nil) }, false},
		"without managed fields": {func(o *unstructured.Unstructured) { o.SetManagedFields(nil) }, false},
		"labels of another manager": {func(o *unstructured.Unstructured) {
			fields := o.GetManagedFields()
			fields[1].Manager = "kubectl"
			o.SetManagedFields(fields)
		}, false},
	} {
		o, err := predecessor.HandOver(object(t, nil))
		if err != nil {
			t.Fatal(err)
		}
		test.edit(o)
		if got := predecessor.HandedOver(o); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

// The order of the managers does not matter.
func TestHandOver_FirstManager(t *testing.T) {
	o := object(t, func(o *unstructured.Unstructured) { o.SetManagedFields(o.GetManagedFields()[1:]) })
	after, err := predecessor.HandOver(o)
	if err != nil || predecessor.Owns(after) || !predecessor.HandedOver(after) {
		t.Errorf("owned %t, handed over %t: %v", predecessor.Owns(after), predecessor.HandedOver(after), err)
	}
}

// TestHandOver_KeepsTheFieldsOfTheInstaller: an object can have fields of both installers.
func TestHandOver_KeepsTheFieldsOfTheInstaller(t *testing.T) {
	both := object(t, func(o *unstructured.Unstructured) {
		ours := o.GetManagedFields()[1].DeepCopy()
		ours.Manager, ours.FieldsV1 = "capi-operator.openshift.io", &metav1.FieldsV1{}
		status := ours.DeepCopy()
		status.Subresource = "status"
		if err := ours.FieldsV1.UnmarshalJSON([]byte(`{"f:data": {"f:ours": {}}}`)); err != nil {
			t.Fatal(err)
		}
		o.SetManagedFields(append(o.GetManagedFields(), *ours, *status))
	})
	after, err := predecessor.HandOver(both)
	if err != nil {
		t.Fatal(err)
	}
	var entries []string
	for _, entry := range after.GetManagedFields() {
		entries = append(entries, entry.Manager+" "+entry.Subresource)
	}
	if diff := cmp.Diff([]string{"kubectl ", "capi-operator.openshift.io status", "capi-operator.openshift.io "}, entries); diff != "" {
		t.Fatalf("managers (-want +got):\n%s", diff)
	}
	fields := string(after.GetManagedFields()[2].FieldsV1.GetRawBytes())
	for _, want := range []string{`"f:ours"`, `"f:a"`, `"f:capi-operator.openshift.io/managed-by"`} {
		if !strings.Contains(fields, want) {
			t.Errorf("the installer does not own %s: %s", want, fields)
		}
	}
	if strings.Contains(fields, "f:users") {
		t.Errorf("the installer owns fields of kubectl: %s", fields)
	}
}
