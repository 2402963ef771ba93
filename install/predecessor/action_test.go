// SPDX-License-Identifier: Apache-2.0

package predecessor_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/predecessor"
)

// owners is the annotation of an object that a version of this installer controls.
const owners = `[{"apiVersion":"v1","kind":"ConfigMap","namespace":"openshift-cluster-api-operator","name":"4.22.0-1","uid":"revision-4.22.0-1","controller":true}]`

func TestActionFor(t *testing.T) {
	desired := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings"}, "data": map[string]any{"a": "b"},
	}}
	label := func(value string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{predecessor.ManagedByLabel: value})
		}
	}
	ours := func(o *unstructured.Unstructured) {
		o.SetAnnotations(map[string]string{v1alpha1.OwnersAnnotation: owners})
	}
	set := func(value string, further ...func(*unstructured.Unstructured)) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, value, "data", "a")
			for _, edit := range further {
				edit(o)
			}
		}
	}
	handedOver, err := predecessor.HandOver(object(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		actual *unstructured.Unstructured
		want   predecessor.Action
	}{
		"absent":                           {nil, predecessor.Create},
		"of the predecessor":               {object(t, nil), predecessor.Adopt},
		"of the predecessor, other fields": {object(t, set("other")), predecessor.AdoptAndChange},
		"installed":                        {object(t, ours), predecessor.Keep},
		"installed, other fields":          {object(t, set("other", ours)), predecessor.Change},
		"of another manager":               {object(t, label("Helm")), predecessor.Collide},
		"of no owner, with the label of installed objects": {object(t, label(v1alpha1.Prefix)), predecessor.Collide},
		"installed, then by the predecessor again": {object(t, func(o *unstructured.Unstructured) {
			annotations := o.GetAnnotations()
			annotations[v1alpha1.OwnersAnnotation] = owners
			o.SetAnnotations(annotations)
		}), predecessor.Keep},
		"handed over": {handedOver, predecessor.Adopt},
		"with further fields": {object(t, func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, "x", "data", "b")
			ours(o)
		}), predecessor.Keep},
		"offered": {object(t, func(o *unstructured.Unstructured) {
			o.SetLabels(nil)
			o.SetAnnotations(map[string]string{"capi-operator.openshift.io/adopt-existing": "always"})
		}), predecessor.Adopt},
	} {
		if got := predecessor.ActionFor(v1alpha1.OpenShiftNamespaces.Operator, desired, test.actual); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestActionFor_ComparesLists: fields that the version does not apply do not count.
func TestActionFor_ComparesLists(t *testing.T) {
	service := func(ports ...any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "a", "annotations": map[string]any{v1alpha1.OwnersAnnotation: owners}},
			"spec": map[string]any{"ports": ports},
		}}
	}
	port := func(number int64, further ...string) map[string]any {
		out := map[string]any{"port": number}
		for _, field := range further {
			out[field] = "default"
		}
		return out
	}
	desired := service(port(443), port(8443))
	desired.Object["status"] = map[string]any{"loadBalancer": "x"}
	desired.SetAnnotations(map[string]string{"capi-operator.openshift.io/adopt-existing": "always"})
	for name, test := range map[string]struct {
		actual *unstructured.Unstructured
		want   predecessor.Action
	}{
		"defaults in items": {service(port(443, "protocol"), port(8443, "protocol")), predecessor.Keep},
		"another item":      {service(port(443), port(9443)), predecessor.Change},
		"a missing item":    {service(port(443)), predecessor.Change},
		"a further item":    {service(port(443), port(8443), port(9443)), predecessor.Change},
		"another order":     {service(port(8443), port(443)), predecessor.Change},
	} {
		if got := predecessor.ActionFor(v1alpha1.OpenShiftNamespaces.Operator, desired, test.actual); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
