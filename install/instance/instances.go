// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"fmt"
	"slices"
	"strings"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Of names an instance of a CRD, or the reason why the instances are unknown;
// empty if there are none. Objects that are being deleted count.
func (a *Access) Of(ctx context.Context, crd *unstructured.Unstructured) (string, error) {
	kind := ListKind(crd)
	if established, _ := probe.Condition(crd, "Established"); established != "True" || kind.Version == "" {
		return "it may have instances: its kind is not served", nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	rules := []rbacv1.PolicyRule{{APIGroups: []string{kind.Group}, Resources: []string{rbacv1.ResourceAll}, Verbs: []string{"list"}}}
	err := a.Permitted(ctx, rules, func(ctx context.Context) error { return a.Live.List(ctx, list, client.Limit(1)) })
	if apierrors.IsStoreReadError(err) || apierrors.IsInternalError(err) && convertsInstances(crd, kind.Version) {
		return "it has instances, which cannot be converted: " + err.Error(), nil
	}
	if apierrors.IsNotFound(err) && a.isGone(ctx, crd) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("listing instances of %s: %w", object.Describe(crd), err)
	}
	if len(list.Items) == 0 {
		return "", nil
	}
	first := list.Items[0]
	first.SetGroupVersionKind(first.GroupVersionKind().GroupVersion().WithKind(strings.TrimSuffix(kind.Kind, "List")))
	return "it has instances, such as " + object.Describe(&first), nil
}

// isGone reports whether the API server answers that a CRD does not exist: it was deleted since it was read, and its instances with it.
func (a *Access) isGone(ctx context.Context, crd *unstructured.Unstructured) bool {
	_, err := ReadCRD(ctx, a.Live, crd.GetName())
	return apierrors.IsNotFound(err)
}

// convertsInstances reports whether the API server calls a conversion webhook to list instances in a version: some are stored in another one.
// Since Kubernetes 1.37 it answers StoreReadError if that fails. Before, the answer has the code 500 and neither a reason nor
// details: only the text of the webhook's error differs from other internal errors.
func convertsInstances(crd *unstructured.Unstructured, version string) bool {
	return object.TextAt(crd.Object, "spec", "conversion", "strategy") == "Webhook" &&
		slices.ContainsFunc(object.TextsAt(crd.Object, "status", "storedVersions"), func(stored string) bool { return stored != version })
}

// ListKind returns the list kind of a CRD. It prefers the storage version to other
// served versions, because its list needs no conversion. The version is empty if none
// is served.
func ListKind(crd *unstructured.Unstructured) schema.GroupVersionKind {
	served := ""
	for _, version := range object.MapsAt(crd.Object, "spec", "versions") {
		if version["served"] == true && (served == "" || version["storage"] == true) {
			served, _ = version["name"].(string)
		}
	}
	return schema.GroupVersionKind{
		Group: object.TextAt(crd.Object, "spec", "group"), Version: served,
		Kind: object.TextAt(crd.Object, "spec", "names", "kind") + "List",
	}
}
