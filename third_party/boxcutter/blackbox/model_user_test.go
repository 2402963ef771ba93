// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// modelHold is a user's finalizer. It delays the deletion of an object.
const modelHold = "test.example.com/hold"

// existing draws an existing object.
func (r *modelRun) existing(rt *rapid.T) (modelSlot, *unstructured.Unstructured) {
	now := r.snapshot()
	var there []modelSlot
	for _, slot := range r.slots {
		if now[slot] != nil {
			there = append(there, slot)
		}
	}
	if len(there) == 0 {
		rt.Skip("there are no objects")
	}
	slot := rapid.SampledFrom(there).Draw(rt, "object")
	return slot, now[slot]
}

// value returns a new value that no revision desires.
func (r *modelRun) value() string {
	r.values++
	return fmt.Sprintf("user-%d", r.values)
}

// patch changes an object as a user. It ignores rejections by the API server, and objects that were deleted
// concurrently.
func (r *modelRun) patch(obj *unstructured.Unstructured, patch string) {
	if err := modelPatch(r.ctx, r.world.user, obj, patch); client.IgnoreNotFound(err) != nil {
		r.Fatal(err)
	}
}

func (r *modelRun) editWanted(rt *rapid.T) {
	slot, obj := r.existing(rt)
	if slot == modelDeployment || rapid.Bool().Draw(rt, "by a merge patch") {
		r.patch(obj, slot.edit(r.value()))
		return
	}
	// An apply with force takes the field from its managers.
	edited := &unstructured.Unstructured{}
	r.must(json.Unmarshal([]byte(slot.edit(r.value())), &edited.Object))
	edited.SetGroupVersionKind(obj.GroupVersionKind())
	edited.SetNamespace(obj.GetNamespace())
	edited.SetName(obj.GetName())
	edited.SetUID(obj.GetUID())
	err := r.world.user.Apply(r.ctx, client.ApplyConfigurationFromUnstructured(edited), client.FieldOwner("user"), client.ForceOwnership)
	if !apierrors.IsConflict(err) { // A conflict: the object with this UID was deleted concurrently.
		r.must(err)
	}
}

func (r *modelRun) addUnowned(rt *rapid.T) {
	_, obj := r.existing(rt)
	r.patch(obj, fmt.Sprintf(`{"metadata": {"labels": {"added": %q}}}`, r.value()))
}

func (r *modelRun) removeWanted(rt *rapid.T) {
	slot, obj := r.existing(rt)
	if slot == modelDeployment || slot == modelCRD {
		rt.Skip("nothing to remove")
	}
	r.patch(obj, `{"data": null}`)
}

func (r *modelRun) removeLabel(rt *rapid.T) {
	_, obj := r.existing(rt)
	label := rapid.SampledFrom([]string{"tier", managedByLabel}).Draw(rt, "label")
	r.patch(obj, fmt.Sprintf(`{"metadata": {"labels": {%q: null}}}`, label))
}

// removeOwner removes all owners of an object.
func (r *modelRun) removeOwner(rt *rapid.T) {
	slot, obj := r.existing(rt)
	r.patch(obj, fmt.Sprintf(`{"metadata": {"ownerReferences": null, "annotations": {%q: null}}}`, ownersMark))
	delete(r.secured, slot)
}

// renumber changes the revision annotation. One that is not a number is an error: TestUnreadableRevision_IsErrorWithoutWrite.
func (r *modelRun) renumber(rt *rapid.T) {
	slot, obj := r.existing(rt)
	value := rapid.SampledFrom([]string{`null`, `"0"`, `"1"`, `"2"`, `"99"`}).Draw(rt, "number")
	r.patch(obj, fmt.Sprintf(`{"metadata": {"annotations": {%q: %s}}}`, revisionMark, value))
	delete(r.secured, slot)
	if edited := r.get(slot); edited != nil && edited.GetAnnotations()[revisionMark] != obj.GetAnnotations()[revisionMark] {
		r.edited[slot] = true
	}
}

// steal makes another owner the controller of an object.
func (r *modelRun) steal(rt *rapid.T) {
	slot, obj := r.existing(rt)
	if slot == modelCRD {
		rt.Skip("a namespaced object cannot own a cluster-scoped one")
	}
	r.own(obj, rapid.Bool().Draw(rt, "natively"))
	r.patch(obj, string(r.owned(obj)))
	delete(r.secured, slot)
}

// own makes the stranger the only owner of an object, by the way of owning in use.
func (r *modelRun) own(obj *unstructured.Unstructured, natively bool) {
	owner := metav1.OwnerReference{
		APIVersion: "v1", Kind: "ConfigMap", Name: r.stranger.GetName(), UID: r.stranger.GetUID(), Controller: ptr.To(true),
	}
	annotations := obj.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	delete(annotations, ownersMark)
	obj.SetOwnerReferences(nil)
	if natively || r.rules.ownership == modelOwnerless || r.rules.ownership == modelNative {
		obj.SetOwnerReferences([]metav1.OwnerReference{owner})
	} else {
		text, err := json.Marshal([]metav1.OwnerReference{owner})
		r.must(err)
		annotations[ownersMark] = string(text)
	}
	obj.SetAnnotations(annotations)
}

// owned returns a patch that gives an object the owners of another.
func (r *modelRun) owned(obj *unstructured.Unstructured) []byte {
	annotations := map[string]any{ownersMark: nil}
	if text, found := obj.GetAnnotations()[ownersMark]; found {
		annotations[ownersMark] = text
	}
	text, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"ownerReferences": obj.GetOwnerReferences(), "annotations": annotations,
	}})
	r.must(err)
	return text
}

func (r *modelRun) deleteAny(rt *rapid.T) {
	slot, obj := r.existing(rt)
	r.delete(slot, obj)
}

func (r *modelRun) delete(slot modelSlot, obj *unstructured.Unstructured) {
	r.must(client.IgnoreNotFound(r.world.user.Delete(r.ctx, obj)))
	delete(r.secured, slot)
	if slot == modelCRD {
		delete(r.secured, modelInstance)
	}
	if len(obj.GetFinalizers()) == 0 || slot == modelCRD {
		r.eventually(string(slot)+" is gone", func() bool {
			now := r.get(slot)
			if now != nil {
				r.hasten(slot, now)
			}
			return now == nil
		})
	}
	if r.get(slot) == nil {
		delete(r.edited, slot)
	}
}

// addFinalizer adds a finalizer to delay the deletion of an object.
func (r *modelRun) addFinalizer(rt *rapid.T) {
	slot, obj := r.existing(rt)
	// The fake API server drops finalizers when it applies to an object that is being
	// deleted.
	if r.world.exact || slot == modelCRD || slot == modelInstance || obj.GetDeletionTimestamp() != nil {
		rt.Skip("no finalizer is possible")
	}
	r.patch(obj, fmt.Sprintf(`{"metadata": {"finalizers": [%q]}}`, modelHold))
}

func (r *modelRun) removeFinalizer(rt *rapid.T) {
	slot, obj := r.existing(rt)
	if !slices.Contains(obj.GetFinalizers(), modelHold) {
		rt.Skip("the object has no finalizer")
	}
	r.release(slot, obj)
}

func (r *modelRun) release(slot modelSlot, obj *unstructured.Unstructured) {
	r.patch(obj, `{"metadata": {"finalizers": null}}`)
	if obj.GetDeletionTimestamp() != nil {
		r.eventually(string(slot)+" is gone", func() bool { return r.get(slot) == nil })
		delete(r.edited, slot)
	}
}

// createExternal creates an object of another owner with the name of a desired one.
func (r *modelRun) createExternal(rt *rapid.T) {
	now := r.snapshot()
	var free []modelSlot
	for _, slot := range r.slots {
		if now[slot] == nil && slot != modelInstance && slot != modelCRD {
			free = append(free, slot)
		}
	}
	if len(free) == 0 {
		rt.Skip("all objects exist")
	}
	slot := rapid.SampledFrom(free).Draw(rt, "object")
	obj := r.sequence.object(slot, 2)
	obj.SetLabels(map[string]string{"tier": r.value()})
	if slot != modelDeployment {
		obj.Object["data"] = map[string]any{"color": r.value(), "size": r.value()}
	}
	if rapid.Bool().Draw(rt, "controlled") {
		r.own(obj, rapid.Bool().Draw(rt, "natively"))
	}
	if rapid.Bool().Draw(rt, "labelled") {
		obj.SetLabels(map[string]string{managedByLabel: r.sequence.managedBy()})
	}
	r.must(r.world.user.Create(r.ctx, obj, client.FieldOwner("user")))
	delete(r.edited, slot)
}

// finish ends a sequence: after users have removed the objects of other owners, the newest revision becomes and stays
// complete; the objects of older revisions are removed by their teardown; finally the newest one is torn down.
func (r *modelRun) finish() {
	r.checkSecured(r.T)
	if r.newest().tornDown {
		r.revisions = slices.Clone(r.revisions)
		newest := *r.newest()
		newest.number++
		newest.tornDown = false
		if newest.owner != nil && r.rules.ownership != modelShared {
			newest.owner = r.newOwner(fmt.Sprintf("rev-%d", newest.number))
			r.rules.siblings[newest.uid()] = true
		}
		r.revisions = append(r.revisions, &newest)
	}
	newest := r.newest()
	r.heal(newest)
	r.converge(newest)
	r.rests(newest)
	r.restart(r.T)
	r.rests(newest)
	r.removeOld(newest)
	r.rests(newest)
	r.remove(newest)
	for slot := range newest.variants {
		if obj := r.get(slot); obj != nil {
			r.Fatalf("%s still exists: %v", slot, obj)
		}
	}
}

// removeOld tears down all revisions but the newest. This does not change the objects of the newest, unless the
// revisions share an owner: then they are recreated.
func (r *modelRun) removeOld(newest *modelRevision) {
	r.Helper()
	before := r.snapshot()
	for _, rev := range r.revisions[:len(r.revisions)-1] {
		r.remove(rev)
	}
	r.checkSecured(r.T)
	if r.rules.ownership == modelShared {
		r.converge(newest)
		return
	}
	after := r.snapshot()
	for slot := range newest.variants {
		if r.rules.has(before[slot], newest) && !modelSame(modelUnowned(before[slot]), modelUnowned(after[slot])) {
			r.Fatalf("the teardown of the old revisions changed %s from\n%v\nto\n%v", slot, before[slot], after[slot])
		}
	}
}

// heal removes the objects that a revision must not change, as a user.
func (r *modelRun) heal(rev *modelRevision) {
	for slot, obj := range r.snapshot() {
		if slices.Contains(obj.GetFinalizers(), modelHold) {
			r.release(slot, obj)
		}
	}
	r.catchUp()
	for slot, obj := range r.snapshot() {
		foreign := r.rules.ownership == modelOwnerless && r.rules.ownership.view(obj).controller != ""
		if rev.variants[slot] > 0 && (foreign || r.rules.reconciled(obj, rev, r.edited[slot]) != modelWrites) {
			r.delete(slot, obj)
		}
	}
}

// converge reconciles a revision until it is complete. Each step must complete at least one phase more.
func (r *modelRun) converge(rev *modelRevision) {
	r.Helper()
	if r.world.exact {
		if result := r.reconcileExactly(rev); !result.IsComplete() {
			r.Fatalf("revision %d does not become complete: %s", rev.number, result)
		}
		return
	}
	r.eventually("the newest revision is complete", func() bool { return r.reconcileExactly(rev).IsComplete() })
}

// rests checks that a revision is in the desired state, and that reconciling it again writes nothing.
func (r *modelRun) rests(rev *modelRevision) {
	r.Helper()
	r.catchUp()
	r.world.writes.take()
	result := r.reconcileExactly(rev)
	wrote := r.world.writes.take()
	if !r.sparing {
		wrote = slices.DeleteFunc(wrote, func(text string) bool { return strings.HasPrefix(text, modelDryRun) })
	}
	if len(wrote) > 0 || !result.IsComplete() {
		r.Fatalf("reconciling revision %d again wrote %v\n%s", rev.number, wrote, result)
	}
	now := r.snapshot()
	for slot := range rev.variants {
		if err := r.isWritten(rev, slot, now[slot], now[slot]); err != nil {
			r.Fatalf("revision %d is complete, but %s is not: %v\n%v", rev.number, slot, err, now[slot])
		}
	}
}

// remove tears a revision down until it is gone.
func (r *modelRun) remove(rev *modelRevision) {
	r.Helper()
	deletes := len(rev.phases) + 1
	for r.world.exact {
		if r.teardownExactly(rev).IsComplete() {
			return
		}
		if deletes--; deletes < 0 {
			r.Fatalf("the teardown of revision %d does not complete", rev.number)
		}
	}
	r.eventually("the revision is gone", func() bool { return r.teardownExactly(rev).IsComplete() })
}
