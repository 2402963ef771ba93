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
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// The controller that aggregates ClusterRoles applies the rules of a role without
// looking whether it is still there. A role that is deleted together with those
// that it is made of may so be made again, by nobody's will: with nothing but
// rules, or, when the others are gone by then, with nothing at all.

// nobodys says whether an object is a ClusterRole that was made again. One without
// a rule has no field that anybody manages.
func nobodys(obj client.Object) bool {
	if obj.GetObjectKind().GroupVersionKind().GroupKind() != clusterRoleKind {
		return false
	}
	if managers := obj.GetManagedFields(); len(managers) > 0 {
		return !slices.ContainsFunc(managers, func(entry metav1.ManagedFieldsEntry) bool {
			return entry.Manager != "clusterrole-aggregation-controller"
		})
	}
	return saysNothing(obj)
}

// saysNothing says whether a ClusterRole is nothing but its name.
func saysNothing(obj client.Object) bool {
	role := &rbacv1.ClusterRole{}
	content, ok := obj.(*unstructured.Unstructured)
	if !ok || runtime.DefaultUnstructuredConverter.FromUnstructured(content.Object, role) != nil {
		return false
	}
	return len(role.Rules) == 0 && role.AggregationRule == nil &&
		len(role.Labels)+len(role.Annotations)+len(role.OwnerReferences)+len(role.Finalizers) == 0
}

// sweep deletes the aggregated ClusterRoles of a revision that were made again.
func (e *Engine) sweep(ctx context.Context, rev *revisionObjects) error {
	var failed []error
	for _, phase := range rev.phases {
		for _, object := range phase.Objects {
			if _, aggregated := object.Object["aggregationRule"]; !aggregated {
				continue
			}
			actual := &unstructured.Unstructured{}
			actual.SetGroupVersionKind(object.GroupVersionKind())
			err := e.Live.Get(ctx, client.ObjectKeyFromObject(object), actual)
			if err == nil && nobodys(actual) {
				err = e.Writer.Delete(ctx, actual, client.Preconditions{UID: new(actual.GetUID())})
			}
			failed = append(failed, client.IgnoreNotFound(err))
		}
	}
	return errors.Join(failed...)
}

var clusterRoleKind = schema.GroupKind{Group: rbacv1.GroupName, Kind: "ClusterRole"}
