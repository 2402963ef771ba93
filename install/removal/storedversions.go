// SPDX-License-Identifier: Apache-2.0

package removal

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
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/util/retry"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

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
// docs/adr/0032-stored-versions.md has the alternatives.

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

// DropVersions prepares a CRD of the cluster for a manifest that lacks some of its stored versions. It returns a
// *MigratingError if it must be called again. It changes only CRDs that belong to the installer or may be adopted.
func (r *Remover) DropVersions(ctx context.Context, manifest *unstructured.Unstructured) (err error) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(object.CRDVersion)
	err = r.Engine.Reader.Get(ctx, client.ObjectKeyFromObject(manifest), crd)
	if apierrors.IsNotFound(err) || err == nil && len(droppedVersions(crd, manifest)) == 0 {
		return nil
	}
	if err == nil {
		crd, err = r.crds().read(ctx, manifest.GetName())
	}
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	dropped := droppedVersions(crd, manifest)
	if len(dropped) == 0 || revision.Owner(crd) == "" && !allowsAdoption(crd) {
		return nil
	}
	defer func() { err = errors.Join(err, r.instances().withdraw(context.WithoutCancel(ctx))) }()
	if !slices.Contains(versionsOf(manifest), storageVersion(crd)) {
		if serves(crd, storageVersion(manifest)) {
			crd, err = r.switchStorage(ctx, crd, storageVersion(manifest))
		} else {
			crd, err = r.addVersions(ctx, crd, manifest, dropped)
		}
		if crd == nil || err != nil {
			return err
		}
	}
	if err := r.migrate(ctx, crd, dropped); err != nil {
		return err
	}
	return r.setStoredVersions(ctx, crd, dropped)
}

// migrate writes all instances of a CRD without a change. The API server stores them in the storage version.
func (r *Remover) migrate(ctx context.Context, crd *unstructured.Unstructured, dropped []string) error {
	kind := listKind(crd)
	kind.Version = storageVersion(crd)
	state := r.migrations[crd.GetUID()]
	end := time.Now().Add(migrationTime)
	for {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		err := r.instances().permitted(ctx, migrationRules(kind.Group), func(ctx context.Context) error {
			return r.Live.List(ctx, list, client.Limit(migrationPage), client.Continue(state.next))
		})
		if apierrors.IsResourceExpired(err) && state.next != "" {
			state.next = ""
			continue
		}
		if err != nil {
			return fmt.Errorf("listing the instances of %s, which drops a stored version: %w", object.Describe(crd), err)
		}
		if err := r.rewrite(ctx, kind, dropped, list.Items); err != nil {
			return err
		}
		state.next, state.written = list.Continue, state.written+len(list.Items)
		if state.next == "" {
			delete(r.migrations, crd.GetUID())
			log.FromContext(ctx).Info("Wrote the instances of a CRD in its storage version", "crd", crd.GetName(), "version", kind.Version, "instances", state.written)
			return nil
		}
		if time.Now().After(end) {
			if r.migrations == nil {
				r.migrations = map[apitypes.UID]migration{}
			}
			r.migrations[crd.GetUID()] = state
			return &MigratingError{CRD: crd.GetName(), Versions: dropped, Written: state.written}
		}
	}
}

// rewrite writes instances without a change, except that fields which are owned in a dropped version are owned in the storage version from
// now on: the API server forgets owners in versions that it does not know.
func (r *Remover) rewrite(ctx context.Context, list schema.GroupVersionKind, dropped []string, items []metav1.PartialObjectMetadata) error {
	for i := range items {
		if err := r.pace.Wait(ctx); err != nil {
			return fmt.Errorf("writing instances: %w", err)
		}
		err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return r.rewriteOne(ctx, list, dropped, &items[i]) })
		if client.IgnoreNotFound(err) != nil {
			items[i].SetGroupVersionKind(instanceKind(list))
			return fmt.Errorf("writing %s in its storage version: %w", object.Describe(&items[i]), err)
		}
	}
	return nil
}

// rewriteOne writes one instance. After a conflict, it is read again.
func (r *Remover) rewriteOne(ctx context.Context, list schema.GroupVersionKind, dropped []string, listed *metav1.PartialObjectMetadata) error {
	patch := []byte("{}")
	if moved, changed := moveOwners(listed.ManagedFields, list.Group, dropped, list.Version); changed {
		content, err := json.Marshal(map[string]any{"metadata": map[string]any{"resourceVersion": listed.ResourceVersion, "managedFields": moved}})
		if err != nil {
			return fmt.Errorf("encoding managed fields: %w", err)
		}
		patch = content
	}
	instance := &metav1.PartialObjectMetadata{}
	instance.SetGroupVersionKind(instanceKind(list))
	instance.SetNamespace(listed.Namespace)
	instance.SetName(listed.Name)
	err := r.instances().permitted(ctx, migrationRules(list.Group), func(ctx context.Context) error {
		return r.Writer.Patch(ctx, instance, client.RawPatch(apitypes.MergePatchType, patch))
	})
	if apierrors.IsConflict(err) {
		one := &metav1.PartialObjectMetadataList{}
		one.SetGroupVersionKind(list)
		selected := client.MatchingFields{"metadata.name": listed.Name}
		if err := r.Live.List(ctx, one, selected, client.InNamespace(listed.Namespace)); err != nil {
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

// switchStorage makes another version that a CRD serves its storage version, and returns the changed CRD.
func (r *Remover) switchStorage(ctx context.Context, crd *unstructured.Unstructured, version string) (*unstructured.Unstructured, error) {
	versions := object.MapsAt(crd.DeepCopy().Object, "spec", "versions")
	for _, of := range versions {
		of["storage"] = of["name"] == version
	}
	return r.setVersions(ctx, crd, versions)
}

// addVersions adds the versions of a manifest to a CRD without instances, so that the storage version can change, and returns the changed CRD.
// It returns nil if the CRD has instances.
func (r *Remover) addVersions(ctx context.Context, crd, manifest *unstructured.Unstructured, dropped []string) (*unstructured.Unstructured, error) {
	why, err := r.instances().of(ctx, crd)
	if err != nil || why != "" {
		log.FromContext(ctx).Info("Not changing the storage version of a CRD", "crd", crd.GetName(), "drops", dropped, "cause", why)
		return nil, err
	}
	versions := slices.Clone(object.MapsAt(manifest.Object, "spec", "versions"))
	for _, version := range object.MapsAt(crd.DeepCopy().Object, "spec", "versions") {
		if name, _ := version["name"].(string); slices.Contains(dropped, name) {
			version["served"], version["storage"] = false, false
			versions = append(versions, version)
		}
	}
	return r.setVersions(ctx, crd, versions)
}

// setVersions sets the versions of a CRD, and returns the changed CRD when its storage version is in effect.
func (r *Remover) setVersions(ctx context.Context, crd *unstructured.Unstructured, versions []map[string]any) (*unstructured.Unstructured, error) {
	all := make([]any, len(versions))
	for i, version := range versions {
		all[i] = version
	}
	changed := crd.DeepCopy()
	if err := unstructured.SetNestedField(changed.Object, all, "spec", "versions"); err != nil {
		return nil, fmt.Errorf("changing the storage version of %s: %w", object.Describe(crd), err)
	}
	patch := client.MergeFromWithOptions(crd, client.MergeFromWithOptimisticLock{})
	if err := r.Writer.Patch(ctx, changed, patch, client.FieldOwner(v1alpha1.FieldOwner)); err != nil {
		return nil, fmt.Errorf("changing the storage version of %s: %w", object.Describe(crd), err)
	}
	log.FromContext(ctx).Info("Changed the storage version of a CRD", "crd", crd.GetName(), "from", storageVersion(crd), "to", storageVersion(changed))
	return changed, r.awaitVersion(ctx, changed)
}

// awaitVersion waits until all API servers store instances in the storage version of a CRD.
func (r *Remover) awaitVersion(ctx context.Context, crd *unstructured.Unstructured) error {
	kind := listKind(crd)
	kind.Version = storageVersion(crd)
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		err := r.instances().permitted(ctx, migrationRules(kind.Group), func(ctx context.Context) error { return r.Live.List(ctx, list, client.Limit(1)) })
		return err == nil, client.IgnoreNotFound(err)
	})
	if err != nil {
		return fmt.Errorf("waiting until version %s of %s is served: %w", kind.Version, object.Describe(crd), err)
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(r.policy().delay):
		return nil
	}
}

// setStoredVersions reduces the stored versions of a CRD to its storage version, unless the CRD has changed since it was read.
func (r *Remover) setStoredVersions(ctx context.Context, crd *unstructured.Unstructured, dropped []string) error {
	patch := fmt.Appendf(nil, `{"metadata":{"resourceVersion":%q},"status":{"storedVersions":[%q]}}`, crd.GetResourceVersion(), storageVersion(crd))
	rules := []rbacv1.PolicyRule{{APIGroups: []string{object.CRDVersion.Group}, Resources: []string{"customresourcedefinitions/status"}, Verbs: []string{"patch"}}}
	err := r.instances().permitted(ctx, rules, func(ctx context.Context) error {
		return r.Status.Status().Patch(ctx, crd.DeepCopy(), client.RawPatch(apitypes.MergePatchType, patch), client.FieldOwner(v1alpha1.FieldOwner))
	})
	if err != nil {
		return fmt.Errorf("removing versions %q from status.storedVersions of %s: %w", dropped, object.Describe(crd), err)
	}
	log.FromContext(ctx).Info("Removed versions from the stored versions of a CRD", "crd", crd.GetName(), "versions", dropped)
	return nil
}

func migrationRules(group string) []rbacv1.PolicyRule {
	return []rbacv1.PolicyRule{{APIGroups: []string{group}, Resources: []string{rbacv1.ResourceAll}, Verbs: []string{"list", "patch"}}}
}

// droppedVersions returns the stored versions of a CRD that a manifest lacks.
func droppedVersions(crd, manifest *unstructured.Unstructured) []string {
	stored, _, _ := unstructured.NestedStringSlice(crd.Object, "status", "storedVersions")
	kept := versionsOf(manifest)
	return slices.DeleteFunc(stored, func(version string) bool { return slices.Contains(kept, version) })
}

// versionsOf returns the names of the versions of a CRD.
func versionsOf(crd *unstructured.Unstructured) (names []string) {
	for _, version := range object.MapsAt(crd.Object, "spec", "versions") {
		name, _ := version["name"].(string)
		names = append(names, name)
	}
	return names
}

// serves reports whether a CRD serves a version.
func serves(crd *unstructured.Unstructured, version string) bool {
	return slices.ContainsFunc(object.MapsAt(crd.Object, "spec", "versions"), func(of map[string]any) bool { return of["name"] == version && of["served"] == true })
}

// storageVersion returns the name of the storage version of a CRD.
func storageVersion(crd *unstructured.Unstructured) string {
	for _, version := range object.MapsAt(crd.Object, "spec", "versions") {
		if version["storage"] == true {
			name, _ := version["name"].(string)
			return name
		}
	}
	return ""
}
