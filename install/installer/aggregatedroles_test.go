// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"testing"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/install/revision"
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
	} {
		if got := recreatedByAggregation(test.object); got != test.want {
			t.Errorf("%s: %t, want %t", name, got, test.want)
		}
	}
}

func TestEngine_DeletesRecreatedRoles(t *testing.T) {
	cluster := fake.NewClientBuilder().WithObjects(
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "recreated"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "used", Labels: map[string]string{"mine": "yes"}}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "not-aggregated"}},
	).Build()
	aggregated := map[string]any{"aggregationRule": map[string]any{}}
	rev := &loadedRevision{contents: contents{phases: []revision.Phase{{Name: "core", Objects: []*unstructured.Unstructured{
		clusterRole("recreated", aggregated), clusterRole("used", aggregated), clusterRole("gone", aggregated), clusterRole("not-aggregated", nil),
	}}}}}
	if err := (&Engine{Live: cluster, Writer: cluster}).deleteRecreatedRoles(t.Context(), rev); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"recreated": false, "used": true, "not-aggregated": true} {
		err := cluster.Get(t.Context(), client.ObjectKey{Name: name}, &rbacv1.ClusterRole{})
		if got := !apierrors.IsNotFound(err); got != want {
			t.Errorf("ClusterRole %s exists: %t, want %t", name, got, want)
		}
	}
	unavailable := answer{apierrors.NewServiceUnavailable("down")}
	if err := (&Engine{Live: unavailable, Writer: cluster}).deleteRecreatedRoles(t.Context(), rev); err == nil {
		t.Error("a failed read is not an error")
	}
}
