// SPDX-License-Identifier: Apache-2.0

package guard

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"
	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/instance"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

const (
	// migrationPage is the number of instances of a list.
	migrationPage = 200
	// migrationRate is the number of instances that are written in a second.
	migrationRate = 50
	// migrationTime limits how long one pass writes instances: other versions are not reconciled meanwhile.
	migrationTime = 20 * time.Second
)

// migration is a pass over the instances of a CRD that has not reached the end.
type migration struct {
	next    string // the token of the next page
	written int
}

// MigratingError reports that instances of a CRD still have to be written.
type MigratingError struct {
	// CRD is its name, and Versions are the versions that it drops.
	CRD      string
	Versions []string
	// Written is the number of instances that were written so far.
	Written int
}

func (e *MigratingError) Error() string {
	return fmt.Sprintf("writing the instances of CustomResourceDefinition %s again, which drops the stored version(s) %q: %d written", e.CRD, e.Versions, e.Written)
}

// The API server rejects a CRD without a version that status.storedVersions names, because instances can be stored in it, and never removes a
// version from that list. So before a CRD is applied, its instances are written again. This stores them in the storage version. Then the list
// is reduced to that version.
//
// If the new manifest lacks the storage version too, instances are first stored in its own storage version:
//   - if the CRD in the cluster serves that version, as after a release that is replaced by the previous one, by switching the storage
//     version of the CRD. Instances that were stored in the other version need a working conversion webhook; those that were not written
//     since do not;
//   - otherwise, a CRD without instances gets the versions of both. With instances it is left to the administrator: only the provider
//     knows whether its old or its new conversion webhook reads them.
//
// docs/decisions.md has the alternatives.

// dropping is a CRD of the cluster, and a manifest that lacks some of its versions.
type dropping struct {
	crd, manifest *unstructured.Unstructured
	versions      []string
	ended         bool // the pods of the older release
}

// Drop prepares CRDs of the cluster for manifests that lack some of their stored versions. With ended, the pods of the older release have ended, which could
// still write in dropped versions: only owners of fields in these are moved. It returns a *MigratingError if it must be called
// again. It changes only CRDs that belong to the installer or may be adopted.
func (g *Guards) Drop(ctx context.Context, ended bool, manifests ...*unstructured.Unstructured) (err error) {
	if g.Live == nil {
		return nil
	}
	all, err := g.dropped(ctx, ended, manifests)
	if err != nil || len(all) == 0 {
		return err
	}
	defer g.Instances.End(ctx, &err)
	return g.drop(ctx, all)
}

// dropped returns the CRDs of the cluster with versions that manifests lack.
func (g *Guards) dropped(ctx context.Context, ended bool, manifests []*unstructured.Unstructured) (all []dropping, err error) {
	for _, manifest := range manifests {
		if !object.IsCRD(manifest) {
			continue
		}
		crd, err := instance.ReadCRD(ctx, g.Cache, manifest.GetName(), client.UnsafeDisableDeepCopy)
		if apierrors.IsNotFound(err) || err == nil && len(droppedVersions(crd, manifest, ended)) > 0 { // a retained CRD is not in the cache
			crd, err = instance.ReadCRD(ctx, g.Live, manifest.GetName())
		}
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		versions := droppedVersions(crd, manifest, ended)
		if len(versions) > 0 && (revision.Owner(g.Instances.Namespace, crd) != "" || v1alpha1.AllowsAdoption(crd.GetAnnotations())) {
			all = append(all, dropping{crd, manifest, versions, ended})
		}
	}
	return all, nil
}

// drop has the instances of CRDs stored in versions that stay. All storage versions switch first, and the API servers are awaited once.
func (g *Guards) drop(ctx context.Context, all []dropping) (err error) {
	var ready []dropping
	var switched bool
	for _, one := range all {
		if dropsStorage(one.crd, one.manifest) {
			if one.crd, err = g.switchStorage(ctx, one); err != nil {
				break
			}
			switched = switched || one.crd != nil
		}
		if one.crd != nil {
			ready = append(ready, one)
		}
	}
	if switched {
		err = errors.Join(err, instance.AwaitServers(ctx, g.Delay))
	}
	if err != nil {
		return err
	}
	for _, one := range ready {
		if err := g.migrate(ctx, one); err != nil {
			return err
		}
		if !one.ended {
			if err := g.setStoredVersions(ctx, one.crd, one.versions); err != nil {
				return err
			}
		}
	}
	return nil
}

// switchStorage gives a CRD a storage version that the manifest has, and returns it; nil if that is left to the administrator.
func (g *Guards) switchStorage(ctx context.Context, one dropping) (*unstructured.Unstructured, error) {
	changed := one.crd.DeepCopy()
	if switches(one.crd, one.manifest) {
		object.SetStorageVersion(changed, object.StorageVersion(one.manifest))
	} else {
		why, err := g.Instances.Of(ctx, one.crd)
		if err != nil || why != "" {
			log.FromContext(ctx).Info("Not changing the storage version of a CRD", "crd", one.crd.GetName(), "drops", one.versions, "cause", why)
			return nil, err
		}
		addVersions(changed, one.manifest, one.versions)
	}
	return changed, g.setVersions(ctx, one.crd, changed)
}

// migrate writes all instances of a CRD without a change. The API server stores them in the storage version.
func (g *Guards) migrate(ctx context.Context, one dropping) error {
	crd := one.crd
	kind := listKind(crd, object.StorageVersion(crd))
	state := g.migrations[crd.GetUID()]
	end, pace := time.Now().Add(migrationTime), flowcontrol.NewTokenBucketRateLimiter(migrationRate, migrationRate)
	for {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		err := g.Instances.Permitted(ctx, instance.Rules(kind.Group, migrationVerbs...), func(ctx context.Context) error {
			return g.Live.List(ctx, list, client.Limit(migrationPage), client.Continue(state.next))
		})
		if apierrors.IsResourceExpired(err) && state.next != "" {
			state.next = ""
			continue
		}
		if err != nil {
			return fmt.Errorf("listing the instances of %s, which drops a stored version: %w", object.Describe(crd), err)
		}
		if err := g.rewrite(ctx, pace, kind, one, list.Items); err != nil {
			return err
		}
		state.next, state.written = list.Continue, state.written+len(list.Items)
		if state.next == "" {
			delete(g.migrations, crd.GetUID())
			log.FromContext(ctx).Info("Wrote the instances of a CRD in its storage version", "crd", crd.GetName(), "version", kind.Version, "instances", state.written)
			return nil
		}
		if time.Now().After(end) {
			if g.migrations == nil {
				g.migrations = map[types.UID]migration{}
			}
			g.migrations[crd.GetUID()] = state
			return &MigratingError{CRD: crd.GetName(), Versions: one.versions, Written: state.written}
		}
	}
}

// rewrite writes instances without a change, except that fields which are owned in a dropped version are owned in the storage version from
// now on: the API server forgets owners in versions that it does not know. After the end of the old pods it writes only instances with such owners.
func (g *Guards) rewrite(ctx context.Context, pace flowcontrol.RateLimiter, list schema.GroupVersionKind, of dropping, items []metav1.PartialObjectMetadata) error {
	for i := range items {
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return g.rewriteOne(ctx, pace, list, of, &items[i]) })
		if client.IgnoreNotFound(err) != nil {
			items[i].SetGroupVersionKind(instanceKind(list))
			return fmt.Errorf("writing %s in its storage version: %w", object.Describe(&items[i]), err)
		}
	}
	return nil
}

// rewriteOne writes one instance. After a conflict, it is read again.
func (g *Guards) rewriteOne(ctx context.Context, pace flowcontrol.RateLimiter, list schema.GroupVersionKind, of dropping, listed *metav1.PartialObjectMetadata) error {
	patch := []byte("{}")
	if moved, changed := moveOwners(listed.ManagedFields, list.Group, of.versions, list.Version); changed {
		content, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": listed.ResourceVersion, "managedFields": moved}})
		if err != nil {
			return fmt.Errorf("encoding managed fields: %w", err)
		}
		patch = content
	} else if of.ended {
		return nil
	}
	if err := pace.Wait(ctx); err != nil {
		return err
	}
	written := &metav1.PartialObjectMetadata{}
	written.SetGroupVersionKind(instanceKind(list))
	written.SetNamespace(listed.Namespace)
	written.SetName(listed.Name)
	err := g.Instances.Permitted(ctx, instance.Rules(list.Group, migrationVerbs...), func(ctx context.Context) error {
		return g.Writer.Patch(ctx, written, client.RawPatch(types.MergePatchType, patch))
	})
	if apierrors.IsConflict(err) {
		one := &metav1.PartialObjectMetadataList{}
		one.SetGroupVersionKind(list)
		selected := client.MatchingFields{"metadata.name": listed.Name}
		if err := g.Live.List(ctx, one, selected, client.InNamespace(listed.Namespace)); err != nil {
			return err
		}
		if len(one.Items) == 0 {
			return nil
		}
		*listed = one.Items[0]
	}
	return err
}

// instanceKind returns the kind of the items of a list.
func instanceKind(list schema.GroupVersionKind) schema.GroupVersionKind {
	return list.GroupVersion().WithKind(strings.TrimSuffix(list.Kind, "List"))
}

// dropsStorage reports whether a manifest lacks the storage version of a CRD.
func dropsStorage(crd, manifest *unstructured.Unstructured) bool {
	return !slices.Contains(object.CRDVersions(manifest), object.StorageVersion(crd))
}

// switches reports whether a CRD serves the storage version of a manifest, so that instances can be stored in it first.
func switches(crd, manifest *unstructured.Unstructured) bool {
	return object.ServesVersion(crd, object.StorageVersion(manifest))
}

// addVersions gives a CRD the versions of a manifest, and keeps the dropped versions unserved, so that the storage version can change.
func addVersions(crd, manifest *unstructured.Unstructured, dropped []string) {
	versions := object.ListAt(manifest.DeepCopy().Object, "spec", "versions")
	for _, version := range object.MapsAt(crd.Object, "spec", "versions") {
		if slices.Contains(dropped, object.TextAt(version, "name")) {
			version["served"], version["storage"] = false, false
			versions = append(versions, version)
		}
	}
	object.MapAt(crd.Object, "spec")["versions"] = versions
}

// setVersions writes the changed versions of a CRD, and returns when an API server serves its storage version.
func (g *Guards) setVersions(ctx context.Context, crd, changed *unstructured.Unstructured) error {
	patch := client.MergeFromWithOptions(crd, client.MergeFromWithOptimisticLock{})
	if err := g.Writer.Patch(ctx, changed, patch, client.FieldOwner(v1alpha1.FieldOwner)); err != nil {
		return fmt.Errorf("changing the storage version of %s: %w", object.Describe(crd), err)
	}
	log.FromContext(ctx).Info("Changed the storage version of a CRD", "crd", crd.GetName(), "from", object.StorageVersion(crd), "to", object.StorageVersion(changed))
	return g.awaitVersion(ctx, changed)
}

// awaitVersion waits until an API server serves the storage version of a CRD.
func (g *Guards) awaitVersion(ctx context.Context, crd *unstructured.Unstructured) error {
	kind := listKind(crd, object.StorageVersion(crd))
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		err := g.Instances.Permitted(ctx, instance.Rules(kind.Group, migrationVerbs...), func(ctx context.Context) error { return g.Live.List(ctx, list, client.Limit(1)) })
		return err == nil, client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("waiting until version %s of %s is served: %w", kind.Version, object.Describe(crd), err)
	}
	return nil
}

// setStoredVersions reduces the stored versions of a CRD to its storage version, unless its spec has changed since it was read. The provider also
// writes annotations and the status of its CRDs.
func (g *Guards) setStoredVersions(ctx context.Context, crd *unstructured.Unstructured, dropped []string) error {
	rules := []rbacv1.PolicyRule{{APIGroups: []string{object.CRDVersion.Group}, Resources: []string{"customresourcedefinitions/status"}, Verbs: []string{"patch"}}}
	err := g.Instances.Permitted(ctx, rules, func(ctx context.Context) error {
		return retry.RetryOnConflict(retry.DefaultRetry, func() error {
			actual, err := instance.ReadCRD(ctx, g.Live, crd.GetName())
			if err != nil {
				return err
			}
			if actual.GetGeneration() != crd.GetGeneration() {
				return fmt.Errorf("its spec has changed from generation %d to %d", crd.GetGeneration(), actual.GetGeneration())
			}
			patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"status":{"storedVersions":[%q]}}`, actual.GetResourceVersion(), object.StorageVersion(crd))
			return g.Status.Status().Patch(ctx, actual, client.RawPatch(types.MergePatchType, patch), client.FieldOwner(v1alpha1.FieldOwner))
		})
	})
	if err != nil {
		return fmt.Errorf("removing versions %q from status.storedVersions of %s: %w", dropped, object.Describe(crd), err)
	}
	log.FromContext(ctx).Info("Removed versions from the stored versions of a CRD", "crd", crd.GetName(), "versions", dropped)
	return nil
}

// migrationVerbs are the permissions of a migration; they are granted at once.
var migrationVerbs = []string{"list", "patch"}

// droppedVersions returns the stored versions of a CRD that a manifest lacks; with ended, all versions that it lacks.
func droppedVersions(crd, manifest *unstructured.Unstructured, ended bool) []string {
	versions, kept := object.CRDVersions(crd), object.CRDVersions(manifest)
	if !ended {
		versions, _, _ = unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	}
	return slices.DeleteFunc(versions, func(version string) bool { return slices.Contains(kept, version) })
}

// moveOwners returns managed fields in which the owners in dropped versions of a group own the same fields in another version, and reports
// whether any did. An owner with fields in both versions gets one entry.
func moveOwners(entries []metav1.ManagedFieldsEntry, group string, dropped []string, to string) (moved []metav1.ManagedFieldsEntry, changed bool) {
	for _, entry := range entries {
		version, err := schema.ParseGroupVersion(entry.APIVersion)
		if err == nil && version.Group == group && slices.Contains(dropped, version.Version) {
			entry.APIVersion, changed = schema.GroupVersion{Group: group, Version: to}.String(), true
		}
		if at := slices.IndexFunc(moved, func(other metav1.ManagedFieldsEntry) bool { return sameOwner(other, entry) }); at >= 0 {
			moved[at].FieldsV1 = union(moved[at].FieldsV1, entry.FieldsV1)
		} else {
			moved = append(moved, entry)
		}
	}
	return moved, changed
}

// sameOwner reports whether the API server has one entry for both.
func sameOwner(a, b metav1.ManagedFieldsEntry) bool {
	return a.Manager == b.Manager && a.Operation == b.Operation && a.APIVersion == b.APIVersion && a.Subresource == b.Subresource
}

// union returns the fields in either set; the first set if one cannot be read.
func union(a, b *metav1.FieldsV1) *metav1.FieldsV1 {
	if a == nil || b == nil {
		return a
	}
	var first, second fieldpath.Set
	if first.FromJSON(a.GetRawReader()) != nil || second.FromJSON(b.GetRawReader()) != nil {
		return a
	}
	all, err := first.Union(&second).ToJSON()
	if err != nil {
		return a
	}
	return metav1.NewFieldsV1(string(all))
}
