// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"fmt"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/probe"
)

// removal is what one pass has come to that removes a version.
type removal struct {
	// waiting are the objects that are not gone yet, and what holds them.
	waiting []string
	// kept are the CRDs that this pass has left in the cluster, and why.
	kept []string
	// phases say what is left of each phase.
	phases []v1alpha1.Phase
	// again is how long until what is waited for is told in other words; 0 means never.
	again time.Duration
	// done says that nothing of the version is left.
	done bool
}

// remove deletes what only this revision has, the last phase first. CRDs that
// somebody else manages, and CRDs that still have instances, stay.
func (e *Engine) remove(ctx context.Context, rev *revisionObjects) (removal, error) {
	if err := e.prepare(ctx, rev); err != nil {
		return removal{}, err
	}
	ours := func(crd *unstructured.Unstructured) bool { return e.Owners.IsController(identity(rev.owner), crd) }
	if err := e.release(ctx, rev.unmanaged, ours); err != nil {
		return removal{}, err
	}
	options, kept, err := e.kept(ctx, rev)
	if err != nil {
		return removal{}, err
	}
	result, err := e.Revisions.Teardown(ctx, e.revision(rev, rev.phases), append(options, boxcutter.WithAggregatePhaseTeardownErrors(), thrifty)...)
	if err != nil {
		return removal{}, err
	}
	out, err := e.removalOf(ctx, result, kept)
	out.phases = removedPhasesOf(rev, result)
	return out, err
}

// removalOf looks at what is left after a pass. kept are the CRDs that were to
// stay, by the phase that has them; they are left when that phase is reached.
func (e *Engine) removalOf(ctx context.Context, result machinery.RevisionTeardownResult, kept map[string][]string) (removal, error) {
	out := removal{done: result.IsComplete()}
	for _, phase := range result.GetPhases() {
		out.kept = append(out.kept, kept[phase.GetName()]...)
		for _, ref := range phase.Waiting() {
			held, again, err := e.holding(ctx, ref)
			if err != nil {
				return out, err
			}
			out.again = sooner(out.again, again)
			out.waiting = append(out.waiting, describeRef(ref)+held)
		}
	}
	return out, nil
}

// holding says since when an object is being deleted, and which finalizers it
// waits for, and how long until that is told in other words.
func (e *Engine) holding(ctx context.Context, ref types.ObjectRef) (string, time.Duration, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(ref.GroupVersionKind)
	err := e.Reader.Get(ctx, ref.ObjectKey, object)
	if apierrors.IsNotFound(err) || err == nil && object.GetDeletionTimestamp() == nil {
		return "", 0, nil // gone by now, or the cache has not seen its deletion
	}
	if err != nil {
		return "", 0, fmt.Errorf("reading %s: %w", describeRef(ref), err)
	}
	text, again := deletedSince(object, e.now())
	return text, again, nil
}

func (e *Engine) now() time.Time {
	if e.Now != nil {
		return e.Now()
	}
	return time.Now()
}

// describeRemoval says what a version that is being removed waits for.
func describeRemoval(version string, left removal) string {
	if len(left.waiting) == 0 {
		return "removing version " + version
	}
	return fmt.Sprintf("removing version %s: waiting for %s", version, list(left.waiting))
}

// recordRemoval notes what is left of a version that is being removed, and what was kept.
func (j *journal) recordRemoval(ctx context.Context, version string, left removal) {
	logger := log.FromContext(ctx)
	for _, crd := range left.kept {
		logger.Info("Kept a CRD", "crd", crd, "version", version)
	}
	record := j.of(version + "/")
	waiting, brief := strings.Join(left.waiting, ", "), list(left.waiting)
	if left.done {
		waiting, brief = "nothing", "nothing"
	}
	if waiting == record.waiting {
		return
	}
	record.waiting = waiting
	logger.Info("Removing a version", "version", version, "objects", len(left.waiting), "waitsFor", brief,
		"seconds", time.Since(record.began).Round(time.Millisecond).Seconds())
}

// kept are the options that have a teardown leave CRDs in place of which there
// are instances, and these CRDs by phase.
func (e *Engine) kept(ctx context.Context, rev *revisionObjects) ([]boxcutter.RevisionTeardownOption, map[string][]string, error) {
	var out []boxcutter.RevisionTeardownOption
	kept := map[string][]string{}
	for _, phase := range rev.phases {
		var options []boxcutter.PhaseTeardownOption
		for _, obj := range phase.Objects {
			why, err := e.keeps(ctx, rev, obj)
			if err != nil {
				return nil, nil, err
			}
			if why != "" {
				options = append(options, boxcutter.WithObjectTeardownOptions(obj, types.WithOrphan()))
				kept[phase.Name] = append(kept[phase.Name], why)
			}
		}
		if options != nil {
			out = append(out, boxcutter.WithPhaseTeardownOptions(phase.Name, options...))
		}
	}
	return out, kept, nil
}

// keeps says whether, and why, an object stays in the cluster when its revision
// goes; empty if it does not. It asks the API server and no cache: a CRD that is
// deleted takes every object of its kind with it, so whatever is not certain is an
// error, or the CRD stays.
func (e *Engine) keeps(ctx context.Context, rev *revisionObjects, obj *unstructured.Unstructured) (string, error) {
	if obj.GetKind() != crdKind {
		return "", nil
	}
	crd := &unstructured.Unstructured{}
	crd.SetGroupVersionKind(obj.GroupVersionKind())
	err := e.Live.Get(ctx, client.ObjectKeyFromObject(obj), crd)
	if apierrors.IsNotFound(err) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", describe(obj), err)
	}
	if !e.Owners.IsController(identity(rev.owner), crd) {
		return "", nil // boxcutter leaves it alone: a newer revision has it, or nobody of ours
	}
	why, err := e.needed(ctx, crd)
	if err != nil || why == "" {
		return "", err
	}
	return crd.GetName() + " (" + why + ")", e.offer(ctx, crd)
}

// offer notes on a CRD that stays that it may be taken over again: by the next
// version that brings it.
func (e *Engine) offer(ctx context.Context, crd *unstructured.Unstructured) error {
	if allowsAdoption(crd) {
		return nil
	}
	patch := client.RawPatch(apitypes.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%q}}}`, v1alpha1.AdoptAnnotation, v1alpha1.AdoptAlways))
	if err := e.Writer.Patch(ctx, crd, patch); err != nil {
		return fmt.Errorf("marking %s, which stays because of its instances: %w", describe(crd), err)
	}
	return nil
}

// needed says what a CRD in the cluster is needed for: there are objects of the
// kind that it defines, or that cannot be told because the kind is not served.
// Empty if there are none.
func (e *Engine) needed(ctx context.Context, crd *unstructured.Unstructured) (string, error) {
	kind := instanceKind(crd)
	if established, _ := probe.Condition(crd, "Established"); established != "True" || kind.Version == "" {
		return "whether it has instances cannot be told, because its kind is not served", nil
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(kind)
	if err := e.Live.List(ctx, list, client.Limit(1)); err != nil {
		return "", fmt.Errorf("looking for instances of %s: %w", describe(crd), err)
	}
	if len(list.Items) == 0 {
		return "", nil
	}
	one := list.Items[0]
	one.SetGroupVersionKind(one.GroupVersionKind().GroupVersion().WithKind(strings.TrimSuffix(kind.Kind, "List")))
	return "it has instances, such as " + describe(&one), nil
}

// instanceKind is the list kind that a CRD defines, in the version in which
// objects are stored, so that listing them needs no conversion, or else in
// another one that is served. The version is empty if none is.
func instanceKind(crd *unstructured.Unstructured) schema.GroupVersionKind {
	group, _, _ := unstructured.NestedString(crd.Object, "spec", "group")
	kind, _, _ := unstructured.NestedString(crd.Object, "spec", "names", "kind")
	versions, _, _ := unstructured.NestedSlice(crd.Object, "spec", "versions")
	served := ""
	for _, item := range versions {
		version, _ := item.(map[string]any)
		if version["served"] == true && (served == "" || version["storage"] == true) {
			served, _ = version["name"].(string)
		}
	}
	return schema.GroupVersionKind{Group: group, Version: served, Kind: kind + "List"}
}
