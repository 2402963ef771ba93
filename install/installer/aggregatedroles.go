// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"slices"

	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/internal/object"
)

// The controller that aggregates ClusterRoles applies the rules of a role without
// checking that the role still exists. If a role is deleted together with the roles
// that it aggregates, the controller can therefore recreate it: with nothing but rules,
// or empty if the other roles are already gone.

// recreatedByAggregation reports whether an object is a ClusterRole that the
// aggregation controller has recreated. A role without rules has no managed fields.
func recreatedByAggregation(obj client.Object) bool {
	if object.GroupKind(obj) != object.ClusterRole {
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
func isEmptyRole(obj client.Object) bool {
	role := &rbacv1.ClusterRole{}
	content, ok := obj.(*unstructured.Unstructured)
	if !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, role) != nil {
		return false
	}
	return len(role.Rules) == 0 && role.AggregationRule == nil &&
		len(role.Labels)+len(role.Annotations)+len(role.OwnerReferences)+len(role.Finalizers) == 0
}

// deleteRecreatedRoles deletes the aggregated ClusterRoles of a removed revision
// that the aggregation controller has recreated.
func (e *Engine) deleteRecreatedRoles(ctx context.Context, rev *loadedRevision) error {
	var failed []error
	for _, phase := range rev.phases {
		for _, role := range phase.Objects {
			if _, aggregated := role.Object["aggregationRule"]; !aggregated {
				continue
			}
			actual := &unstructured.Unstructured{}
			actual.SetGroupVersionKind(role.GroupVersionKind())
			err := e.Live.Get(ctx, client.ObjectKeyFromObject(role), actual)
			if err == nil && recreatedByAggregation(actual) {
				err = e.Writer.Delete(ctx, actual, client.Preconditions{UID: new(actual.GetUID())})
			}
			failed = append(failed, client.IgnoreNotFound(err))
		}
	}
	return errors.Join(failed...)
}
