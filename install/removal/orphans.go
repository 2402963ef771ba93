// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/rbacrule"
)

// An orphan is an object of this installer whose version no longer exists, so that nothing would ever remove it. A process
// that is paused during a write can leave one behind, as can an administrator who creates a saved object again.
//
// An object is an orphan only if one read from the API server shows
//
//   - the label of the installer,
//   - an owner that is a version of this installer, by its name, namespace and UID, and
//   - fields that were written by the field manager of the installer,
//
// and the version is not known. It is deleted only as it was read: with the UID and the resource version of the read.

// Orphans finds and removes the objects of versions that do not exist.
type Orphans struct {
	// Discovery lists the kinds that the API server serves; nil disables the search.
	Discovery discovery.ServerResourcesInterface
	// Rules returns the installer's permissions in a namespace; cluster-wide if it is empty.
	Rules func(ctx context.Context, namespace string) ([]rbacv1.PolicyRule, error)
	// Namespaces are the providers' namespaces.
	Namespaces []string
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// Writer writes to the API server.
	Writer client.Writer
	// Owners removes owners from objects.
	Owners engine.Owners
}

// Orphan is an object whose version does not exist.
type Orphan struct {
	// Object is its metadata, as it was read.
	Object *metav1.PartialObjectMetadata
	// Version is the version that it names as its owner.
	Version string
}

// String names the object and its version.
func (o Orphan) String() string { return object.Describe(o.Object) + " of version " + o.Version }

// Retained reports whether the object stays: its deletion would delete objects of others, or machines.
func (o Orphan) Retained() bool { return object.DeletesOthers(o.Object.GroupVersionKind().GroupKind()) }

// listTimeout bounds the list of one kind. The API server lists instances only through the conversion webhook of their CRD, and the
// webhook may not answer.
const listTimeout = 5 * time.Second

// Find returns the orphans in order of removal. It lists the metadata of all kinds that the installer may list and create. unlisted are
// the causes for groups of kinds that the API server does not list: their objects are missing. They must not keep the installer from
// anything else.
func (o Orphans) Find(ctx context.Context, known sets.Set[string]) (found []Orphan, unlisted []error, err error) {
	if o.Discovery == nil {
		return nil, nil, nil
	}
	lists, err := o.Discovery.ServerPreferredResources()
	if len(lists) == 0 && err != nil {
		return nil, nil, fmt.Errorf("listing the kinds of the API server: %w", err)
	}
	if err != nil { // an aggregated API is unavailable: the installer has no objects there
		log.FromContext(ctx).Info("Not searching all kinds for objects whose version does not exist", "cause", err.Error())
	}
	rules := map[string][]rbacv1.PolicyRule{}
	for _, namespace := range append([]string{metav1.NamespaceAll}, o.Namespaces...) {
		if rules[namespace], err = o.Rules(ctx, namespace); err != nil {
			return nil, nil, err
		}
	}
	for _, list := range lists {
		for _, resource := range list.APIResources {
			orphans, err := o.ofKind(ctx, schema.FromAPIVersionAndKind(list.GroupVersion, resource.Kind), o.searched(rules, list.GroupVersion, resource), known)
			found = append(found, orphans...)
			if err != nil {
				unlisted = append(unlisted, err)
				break // the other kinds of the group have the same webhook
			}
		}
	}
	slices.SortFunc(found, func(a, b Orphan) int { return object.Compare(b.Object, a.Object) })
	return found, unlisted, nil
}

// searched returns the namespaces to list a resource in (an empty one means all): there the installer may list and create it, and it has
// written no others. So the instances of the providers' CRDs, which it may only list, cost no request.
func (o Orphans) searched(rules map[string][]rbacv1.PolicyRule, groupVersion string, resource metav1.APIResource) (namespaces []string) {
	version, err := schema.ParseGroupVersion(groupVersion)
	if err != nil || !slices.Contains(resource.Verbs, "list") || !slices.Contains(resource.Verbs, "delete") {
		return nil
	}
	may := func(namespace string) bool {
		return !slices.ContainsFunc([]string{"list", "create"}, func(verb string) bool {
			return !slices.ContainsFunc(rules[namespace], func(rule rbacv1.PolicyRule) bool { return rbacrule.Allows(rule, version.Group, resource.Name, verb) })
		})
	}
	if may(metav1.NamespaceAll) {
		return []string{metav1.NamespaceAll}
	}
	if !resource.Namespaced {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(o.Namespaces), func(namespace string) bool { return !may(namespace) })
}

// ofKind returns the orphans of one kind in some namespaces.
func (o Orphans) ofKind(ctx context.Context, kind schema.GroupVersionKind, namespaces []string, known sets.Set[string]) (found []Orphan, err error) {
	for _, namespace := range namespaces {
		more, err := o.inNamespace(ctx, kind, namespace, known)
		if err != nil {
			return found, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// inNamespace returns the orphans of one kind in a namespace; in all of them if it is empty.
func (o Orphans) inNamespace(ctx context.Context, kind schema.GroupVersionKind, namespace string, known sets.Set[string]) ([]Orphan, error) {
	ctx, cancel := context.WithTimeout(ctx, listTimeout)
	defer cancel()
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := o.Live.List(ctx, list, client.InNamespace(namespace), client.MatchingLabels{engine.ManagedByLabel: v1alpha1.Prefix})
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) { // the CRD was deleted since
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing %s: %w", kind.GroupKind(), err)
	}
	var found []Orphan
	for i := range list.Items {
		obj := &list.Items[i]
		obj.SetGroupVersionKind(kind)
		if version := revision.Owner(o.Owners.Namespace, obj); version != "" && !known.Has(version) && isWritten(obj) {
			found = append(found, Orphan{obj, version})
		}
	}
	return found, nil
}

// isWritten reports whether the field manager of the installer has written fields of an object.
func isWritten(obj metav1.Object) bool {
	return slices.ContainsFunc(obj.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
		return entry.Manager == v1alpha1.FieldOwner && entry.Subresource == ""
	})
}

// Remove deletes orphans, and makes those that are retained objects without owner. An object that has changed since it was
// found is not written. It returns the orphans that it has written; one that is being deleted is not written again.
func (o Orphans) Remove(ctx context.Context, orphans []Orphan) (written []Orphan, err error) {
	var failed []error
	for _, orphan := range orphans {
		var err error
		switch {
		case orphan.Object.DeletionTimestamp != nil:
			continue
		case orphan.Retained():
			err = o.retain(ctx, orphan)
		default:
			err = client.IgnoreNotFound(o.Writer.Delete(ctx, orphan.Object, client.Preconditions(object.AsRead(orphan.Object))))
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("removing %s, which does not exist: %w", orphan, err))
			continue
		}
		written = append(written, orphan)
	}
	return written, errors.Join(failed...)
}

// retain removes the metadata of the installer from an orphan. A CRD is marked as adoptable, as is one that a removed version retains.
func (o Orphans) retain(ctx context.Context, orphan Orphan) error {
	changed := orphan.Object.DeepCopy()
	o.Owners.Remove(orphan.Version, changed)
	unlabel(changed)
	if object.IsCRD(changed) {
		changed.Annotations[v1alpha1.AdoptAnnotation] = v1alpha1.AdoptAlways
	}
	patch := client.MergeFromWithOptions(orphan.Object, client.MergeFromWithOptimisticLock{})
	if err := o.Writer.Patch(ctx, changed, patch, client.FieldOwner(v1alpha1.FieldOwner)); err != nil || !object.IsCRD(changed) {
		return client.IgnoreNotFound(err)
	}
	return crds{o.Live, o.Writer, o.Owners}.endConversion(ctx, changed.Name)
}
