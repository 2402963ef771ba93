// SPDX-License-Identifier: Apache-2.0

package predecessor_test

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/capi-installer/capi-installer/install/predecessor"
)

func TestActionFor(t *testing.T) {
	desired := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": "settings"}, "data": map[string]any{"a": "b"},
	}}
	label := func(value string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			o.SetLabels(map[string]string{predecessor.ManagedByLabel: value})
		}
	}
	set := func(value string, further ...func(*unstructured.Unstructured)) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			_ = unstructured.SetNestedField(o.Object, value, "data", "a")
			for _, edit := range further {
				edit(o)
			}
		}
	}
	for name, test := range map[string]struct {
		actual *unstructured.Unstructured
		want   predecessor.Action
	}{
		"absent":                           {nil, predecessor.Create},
		"of the predecessor":               {object(t, nil), predecessor.Adopt},
		"of the predecessor, other fields": {object(t, set("other")), predecessor.AdoptAndChange},
		"installed":                        {object(t, label("capi-operator.openshift.io")), predecessor.Keep},
		"installed, other fields":          {object(t, set("other", label("capi-operator.openshift.io"))), predecessor.Change},
		"of another manager":               {object(t, label("Helm")), predecessor.Collide},
		"offered": {object(t, func(o *unstructured.Unstructured) {
			o.SetLabels(nil)
			o.SetAnnotations(map[string]string{"capi-operator.openshift.io/adopt-existing": "always"})
		}), predecessor.Adopt},
	} {
		if got := predecessor.ActionFor(desired, test.actual); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}
