// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// clusterRole returns a ClusterRole with further fields.
func clusterRole(name string, fields map[string]any) *unstructured.Unstructured {
	role := &unstructured.Unstructured{Object: map[string]any{}}
	for key, value := range fields {
		role.Object[key] = value
	}
	role.SetAPIVersion("rbac.authorization.k8s.io/v1")
	role.SetKind("ClusterRole")
	role.SetName(name)
	return role
}

func TestRecreatedByAggregation(t *testing.T) {
	rules := map[string]any{"rules": []any{map[string]any{"verbs": []any{"get"}}}}
	managed := func(managers ...string) *unstructured.Unstructured {
		role := clusterRole("a", rules)
		var entries []metav1.ManagedFieldsEntry
		for _, manager := range managers {
			entries = append(entries, metav1.ManagedFieldsEntry{Manager: manager})
		}
		role.SetManagedFields(entries)
		return role
	}
	labelled := clusterRole("a", nil)
	labelled.SetLabels(map[string]string{"mine": "yes"})
	other := clusterRole("a", nil)
	other.SetKind("Role")
	for name, test := range map[string]struct {
		object *unstructured.Unstructured
		want   bool
	}{
		"only fields of the controller":   {managed("clusterrole-aggregation-controller"), true},
		"also fields of another manager":  {managed("clusterrole-aggregation-controller", "kubectl"), false},
		"an empty role":                   {clusterRole("a", nil), true},
		"rules without a manager":         {clusterRole("a", rules), false},
		"an aggregation rule":             {clusterRole("a", map[string]any{"aggregationRule": map[string]any{}}), false},
		"a label":                         {labelled, false},
		"an empty object of another kind": {other, false},
		"an unknown object":               {nil, false},
	} {
		if got := RecreatedByAggregation(test.object); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}
