// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/text"
)

// retain returns the teardown options that orphan CRDs with instances and delete the
// others under the guard. It also returns the orphaned CRDs by phase.
func (e *Engine) retain(ctx context.Context, rev *loadedRevision, guard *deletionGuard) ([]boxcutter.RevisionTeardownOption, map[string][]string, error) {
	controlled, err := e.controlledCRDs(ctx, rev)
	if err != nil {
		return nil, nil, err
	}
	var out []boxcutter.RevisionTeardownOption
	retained := map[string][]string{}
	for _, phase := range rev.phases {
		var options []boxcutter.PhaseTeardownOption
		for _, obj := range phase.Objects {
			if !object.IsCRD(obj) {
				continue
			}
			reason := "" // boxcutter leaves a CRD that the revision does not control to its owner
			if controlled.Has(obj.GetName()) {
				if reason, err = e.retentionReason(ctx, rev, obj); err != nil {
					return nil, nil, err
				}
			}
			if reason == "" {
				guard.crds = append(guard.crds, obj)
				options = append(options, boxcutter.WithObjectTeardownOptions(obj, types.WithTeardownWriter(guardedWriter{e.Writer, guard})))
			} else {
				options = append(options, boxcutter.WithObjectTeardownOptions(obj, types.WithOrphan()))
				retained[phase.Name] = append(retained[phase.Name], obj.GetName()+" ("+reason+")")
			}
		}
		if options != nil {
			out = append(out, boxcutter.WithPhaseTeardownOptions(phase.Name, options...))
		}
	}
	return out, retained, nil
}

// controlledCRDs returns the names of the CRDs that a revision controls. It lists them from the API
// server, because a newer version has usually adopted nearly all.
func (e *Engine) controlledCRDs(ctx context.Context, rev *loadedRevision) (sets.Set[string], error) {
	crds, err := listCRDs(ctx, e.Live)
	names := sets.New[string]()
	for i := range crds {
		if e.Owners.IsController(ownerOf(rev.owner), &crds[i]) {
			names.Insert(crds[i].Name)
		}
	}
	return names, err
}

// listCRDs lists the metadata of all CRDs.
func listCRDs(ctx context.Context, reader client.Reader) ([]metav1.PartialObjectMetadata, error) {
	crds := &metav1.PartialObjectMetadataList{}
	crds.SetGroupVersionKind(object.CRDVersion.GroupVersion().WithKind(object.CRDVersion.Kind + "List"))
	if err := reader.List(ctx, crds); err != nil {
		return nil, fmt.Errorf("listing CRDs: %w", err)
	}
	return crds.Items, nil
}

// liveCRD reads a CRD from the API server.
func (e *Engine) liveCRD(ctx context.Context, name string) (*unstructured.Unstructured, error) {
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(object.CRDVersion)
	if err := e.Live.Get(ctx, client.ObjectKey{Name: name}, crd); err != nil {
		return nil, fmt.Errorf("reading CustomResourceDefinition %s: %w", name, err)
	}
	return crd, nil
}

// retentionReason returns why a CRD stays in the cluster when its revision is removed;
// empty if it is deleted. It reads from the API server, because deleting a CRD deletes
// all its instances: if their existence is unknown, it fails or retains the CRD. It
// marks a CRD that stays as adoptable.
func (e *Engine) retentionReason(ctx context.Context, rev *loadedRevision, obj *unstructured.Unstructured) (string, error) {
	crd, err := e.liveCRD(ctx, obj.GetName())
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	if !e.Owners.IsController(ownerOf(rev.owner), crd) {
		return "", nil // boxcutter leaves it to its owner
	}
	reason, err := e.instances(ctx, crd)
	if err != nil || reason == "" {
		return "", err
	}
	return reason, e.markAdoptable(ctx, crd)
}

// unmarkRetained removes the label, the revision and the owner from the retained CRDs
// of the phases that were reached. Some versions of boxcutter do not remove them with
// WithOrphan, and with them a CRD would still belong to the removed version.
func (e *Engine) unmarkRetained(
	ctx context.Context, rev *loadedRevision, result machinery.RevisionTeardownResult, retained map[string][]string,
) error {
	for _, phase := range result.GetPhases() {
		for _, text := range retained[phase.GetName()] {
			name, _, _ := strings.Cut(text, " ")
			if err := e.unmark(ctx, name, ownerOf(rev.owner)); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Engine) unmark(ctx context.Context, name string, owner client.Object) error {
	crd, err := e.liveCRD(ctx, name)
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	if !e.Owners.IsController(owner, crd) {
		return nil
	}
	unmarked := crd.DeepCopy()
	e.Owners.RemoveOwner(owner, unmarked)
	labels, annotations := unmarked.GetLabels(), unmarked.GetAnnotations()
	delete(labels, ManagedByLabel)
	delete(annotations, v1alpha1.RevisionAnnotation)
	unmarked.SetLabels(labels)
	unmarked.SetAnnotations(annotations)
	patch := client.MergeFromWithOptions(crd, client.MergeFromWithOptimisticLock{})
	if err := e.Writer.Patch(ctx, unmarked, patch, client.FieldOwner(v1alpha1.FieldOwner)); client.IgnoreNotFound(err) != nil {
		return fmt.Errorf("removing the owner from retained %s: %w", describe(crd), err)
	}
	return nil
}

// markAdoptable annotates a retained CRD, so that the next version that contains
// it adopts it.
func (e *Engine) markAdoptable(ctx context.Context, crd *unstructured.Unstructured) error {
	if allowsAdoption(crd) {
		return nil
	}
	patch := client.RawPatch(apitypes.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AdoptAnnotation, v1alpha1.AdoptAlways))
	if err := e.Writer.Patch(ctx, crd, patch); err != nil {
		return fmt.Errorf("annotating %s, which is retained because of its instances: %w", describe(crd), err)
	}
	return nil
}

// instances names an instance of a CRD, or the reason why the instances are unknown;
// empty if there are none. Objects that are being deleted count.
func (e *Engine) instances(ctx context.Context, crd *unstructured.Unstructured) (string, error) {
	kind := listKind(crd)
	if established, _ := probe.Condition(crd, "Established"); established != "True" || kind.Version == "" {
		return "it may have instances: its kind is not served", nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	err := e.listInstances(ctx, kind.Group, func(ctx context.Context) error { return e.Live.List(ctx, list, client.Limit(1)) })
	if conversionFailed(err) {
		return "it has instances, which cannot be converted: " + err.Error(), nil
	}
	if err != nil {
		return "", fmt.Errorf("listing instances of %s: %w", describe(crd), err)
	}
	if len(list.Items) == 0 {
		return "", nil
	}
	first := list.Items[0]
	first.SetGroupVersionKind(first.GroupVersionKind().GroupVersion().WithKind(strings.TrimSuffix(kind.Kind, "List")))
	return "it has instances, such as " + describe(&first), nil
}

// conversionFailed reports whether a list failed in the conversion webhook of a CRD.
// The API server calls the webhook only for instances that are stored in another
// version.
func conversionFailed(err error) bool {
	return apierrors.IsInternalError(err) && strings.Contains(err.Error(), "conversion webhook for ")
}

// listKind returns the list kind of a CRD. It prefers the storage version, for which a
// list needs no conversion, to other served versions. The version is empty if none is
// served.
func listKind(crd *unstructured.Unstructured) schema.GroupVersionKind {
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

// nameRetained adds the CRDs that removed versions have left behind to the message of a settled version. A CRD whose
// instances cannot be listed is among them.
func (r *Reconciler) nameRetained(ctx context.Context, outcome *status.Outcome, unmanaged []string) error {
	names, err := retainedCRDs(ctx, r.Engine.Metadata)
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(unmanaged, name) })
	if err != nil || len(names) == 0 {
		return err
	}
	outcome.Message = cmp.Or(outcome.Message, reason.Of(reason.AsExpected).Message) + "; CRDs retained because of their instances: " + text.First(10, names)
	return nil
}

// retainedCRDs returns the names of the adoptable CRDs in the cluster, sorted. They
// were retained when their version was removed; the annotation in the cluster records
// this across restarts of the installer.
func retainedCRDs(ctx context.Context, reader client.Reader) ([]string, error) {
	crds, err := listCRDs(ctx, reader)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range crds {
		if allowsAdoption(&crds[i]) {
			names = append(names, crds[i].Name)
		}
	}
	slices.Sort(names)
	return names, nil
}
