// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/capi-installer/capi-installer/internal/object"
)

// The controller that aggregates ClusterRoles applies the rules of a role without
// checking that the role still exists. If a role is deleted together with the roles
// that it aggregates, the controller can therefore recreate it: with nothing but rules,
// or empty if the other roles are already gone.

// RecreatedByAggregation reports whether an object is a ClusterRole that the
// aggregation controller has recreated. A role without rules has no managed fields.
func RecreatedByAggregation(obj *unstructured.Unstructured) bool {
	if obj == nil || object.GroupKind(obj) != object.ClusterRole {
		return false
	}
	if managers := obj.GetManagedFields(); len(managers) > 0 {
		return !slices.ContainsFunc(managers, func(entry metav1.ManagedFieldsEntry) bool {
			return entry.Manager != "clusterrole-aggregation-controller"
		})
	}
	return isEmptyRole(obj)
}

// isEmptyRole reports whether a ClusterRole has only a name.
func isEmptyRole(obj *unstructured.Unstructured) bool {
	role := &rbacv1.ClusterRole{}
	if runtime.DefaultUnstructuredConverter.FromUnstructured(obj.Object, role) != nil {
		return false
	}
	return len(role.Rules) == 0 && role.AggregationRule == nil &&
		len(role.Labels)+len(role.Annotations)+len(role.OwnerReferences)+len(role.Finalizers) == 0
}
