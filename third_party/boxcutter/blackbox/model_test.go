// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/test/controlplane"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/scheme"
	"pgregory.net/rapid"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	bctypes "pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/ownerhandling"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestRandomSequences_InMemory(t *testing.T) {
	modelChecks(t, 100, 2000)
	rapid.Check(t, func(rt *rapid.T) {
		ownership := rapid.SampledFrom([]modelOwning{modelAnnotation, modelNative, modelOwnerless, modelShared}).Draw(rt, "owning")
		r := newModelRun(t.Context(), rt, newModelFake(), ownership, modelSequence{namespace: "default"},
			[]modelSlot{modelA, modelB, modelC, modelDeployment})
		defer r.stop()
		r.run()
	})
}

func TestRandomSequences_OnAPIServer(t *testing.T) {
	modelChecks(t, 20, 200)
	cluster := controlplane.Shared(t)
	namespace := cluster.Namespace(t)
	number := 0
	rapid.Check(t, func(rt *rapid.T) {
		ownership := rapid.SampledFrom([]modelOwning{modelAnnotation, modelNative, modelOwnerless, modelShared}).Draw(rt, "owning")
		slots := []modelSlot{modelA, modelB, modelDeployment}
		// An owner in a namespace cannot own cluster-scoped objects natively.
		if ownership != modelNative && rapid.IntRange(0, 2).Draw(rt, "with a CRD, if 0") == 0 {
			slots = append(slots, modelCRD, modelInstance)
		}
		world, err := newModelReal(cluster.Config)
		if err != nil {
			rt.Fatal(err)
		}
		number++
		r := newModelRun(t.Context(), rt, world, ownership, modelSequence{namespace: namespace, number: number}, slots)
		defer r.stop()
		r.run()
	})
}

// modelChecks sets the number of sequences, unless -rapid.checks does. Sampled sequences are the same in each run; with
// E2E=full in the environment they are random.
func modelChecks(t *testing.T, sampled, full int) {
	t.Helper()
	asked := false
	flag.Visit(func(f *flag.Flag) { asked = asked || strings.HasPrefix(f.Name, "rapid.") })
	switch {
	case asked:
	case os.Getenv("E2E") == "full":
		setFlag(t, "rapid.checks", strconv.Itoa(full))
	default:
		setFlag(t, "rapid.checks", strconv.Itoa(sampled))
		setFlag(t, "rapid.seed", "1")
	}
}

// setFlag sets a flag until the test ends.
func setFlag(t *testing.T, name, value string) {
	t.Helper()
	set := flag.Lookup(name).Value
	before := set.String()
	t.Cleanup(func() { _ = set.Set(before) })
	if err := set.Set(value); err != nil {
		t.Fatal(err)
	}
}

// modelRun is the state of a running sequence.
type modelRun struct {
	*rapid.T
	checker
	ctx context.Context

	world    *modelWorld
	rules    modelRules
	sequence modelSequence
	slots    []modelSlot
	strategy boxcutter.OwnerStrategy
	stranger client.Object
	shared   client.Object

	engine    *boxcutter.RevisionEngine
	cache     client.Reader
	stopCache func()

	revisions []*modelRevision
	// edited are the objects whose revision annotation a user has changed.
	edited map[modelSlot]bool
	// complete is the newest revision that was complete, and secured are its objects that only a user can take from it.
	complete *modelRevision
	secured  map[modelSlot]bool
	// removing is the revision that is being torn down.
	removing *modelRevision
	// wrong are invalid delete requests.
	wrong modelNotes
	// concurrency, aggregate and sparing are the options of all steps.
	concurrency int
	aggregate   bool
	sparing     bool
	// hastened is when a CRD was last hastened.
	hastened time.Time
	// values is the number of values that users have written.
	values int
}

func newModelRun(
	ctx context.Context, rt *rapid.T, world *modelWorld, ownership modelOwning, sequence modelSequence, slots []modelSlot,
) *modelRun {
	r := &modelRun{
		T: rt, checker: checker{rt}, ctx: ctx, world: world, sequence: sequence, slots: slots,
		edited: map[modelSlot]bool{}, secured: map[modelSlot]bool{}, stopCache: func() {},
		rules: modelRules{ownership: ownership, siblings: map[string]bool{}, protection: rapid.SampledFrom([]bctypes.CollisionProtection{
			boxcutter.CollisionProtectionPrevent, boxcutter.CollisionProtectionIfNoController, boxcutter.CollisionProtectionNone,
		}).Draw(rt, "protection")},
	}
	switch ownership {
	case modelAnnotation, modelShared:
		r.strategy = ownerhandling.NewAnnotation(scheme.Scheme, ownersMark)
	case modelNative:
		r.strategy = ownerhandling.NewNative(scheme.Scheme)
	case modelOwnerless:
	}
	r.concurrency = rapid.SampledFrom([]int{1, 4}).Draw(rt, "concurrency")
	r.aggregate = rapid.Bool().Draw(rt, "aggregate errors")
	r.sparing = rapid.Bool().Draw(rt, "no dry-run of unchanged")
	world.deleting = r.checkDelete
	r.stranger = r.newOwner("stranger")
	if ownership == modelShared {
		r.shared = r.newOwner("shared")
	}
	r.restart(rt)
	return r
}

func (r *modelRun) stop() { r.stopCache() }

// newOwner creates an owner of objects.
func (r *modelRun) newOwner(name string) client.Object {
	out := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
		Namespace: r.sequence.namespace, Name: fmt.Sprintf("s%d-%s", r.sequence.number, name),
	}}
	r.must(r.world.user.Create(r.ctx, out))
	out.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"}
	if out.UID == "" {
		out.UID = apitypes.UID("uid-" + name)
	}
	return out
}

func (r *modelRun) run() {
	r.addRevision(r.T)
	r.Repeat(map[string]func(*rapid.T){
		"":                 r.checkSecured,
		"add a revision":   r.addRevision,
		"reconcile":        r.reconcileAny,
		"reconcile newest": r.reconcileNewest,
		"reconcile again":  r.reconcileNewest,
		"pause":            r.pauseAny,
		"teardown":         r.teardownAny,
		"restart":          r.restart,
		"edit":             r.editWanted,
		"add a field":      r.addUnowned,
		"remove a field":   r.removeWanted,
		"remove a label":   r.removeLabel,
		"remove the owner": r.removeOwner,
		"renumber":         r.renumber,
		"steal":            r.steal,
		"delete":           r.deleteAny,
		"hold":             r.addFinalizer,
		"release":          r.removeFinalizer,
		"create external":  r.createExternal,
	})
	r.finish()
}

// restart replaces the engine by one with a new cache.
func (r *modelRun) restart(*rapid.T) {
	r.stopCache()
	r.cache, r.stopCache = client.Reader(r.world.user), func() {}
	if r.world.newCache != nil {
		var err error
		r.cache, r.stopCache, err = r.world.newCache(r.sequence.managedBy())
		r.must(err)
	}
	var err error
	r.engine, err = boxcutter.NewRevisionEngine(boxcutter.RevisionEngineOptions{
		Scheme: scheme.Scheme, FieldOwner: fieldOwner, SystemPrefix: systemPrefix, ManagedBy: r.sequence.managedBy(),
		DiscoveryClient: r.world.schemas, RestMapper: r.world.mapper,
		Writer: r.world.writer, Reader: r.cache, UnfilteredReader: r.world.user,
		PhaseValidator: validation.NewClusterPhaseValidator(r.world.mapper, r.world.writer),
	})
	r.must(err)
}

// addRevision draws a revision. Every second one has most objects of its predecessor.
func (r *modelRun) addRevision(rt *rapid.T) {
	if len(r.revisions) == 5 {
		rt.Skip("enough revisions")
	}
	rev := &modelRevision{number: int64(len(r.revisions) + 1), variants: map[modelSlot]int{}}
	switch {
	case r.rules.ownership == modelShared:
		rev.owner = r.shared
	case r.strategy != nil:
		rev.owner = r.newOwner(fmt.Sprintf("rev-%d", rev.number))
	}
	if rev.owner != nil {
		r.rules.siblings[rev.uid()] = true
	}
	rev.phases = make([][]modelSlot, 4)
	for _, slot := range r.slots {
		variant := rapid.IntRange(0, modelVariants).Draw(rt, string(slot))
		if slot == modelInstance && rev.variants[modelCRD] == 0 {
			variant = 0
		}
		if variant == 0 {
			continue
		}
		phase := rapid.IntRange(1, 2).Draw(rt, "phase of "+string(slot))
		switch slot {
		case modelCRD:
			phase = 0
		case modelInstance:
			phase = 3
		}
		rev.variants[slot] = variant
		rev.phases[phase] = append(rev.phases[phase], slot)
	}
	r.revisions = append(r.revisions, rev)
}

// wanted returns the object that a revision desires in a slot.
func (r *modelRun) wanted(rev *modelRevision, slot modelSlot) *unstructured.Unstructured {
	return r.sequence.object(slot, rev.variants[slot])
}

// revision returns a revision in the form of the engine.
func (r *modelRun) revision(rev *modelRevision) boxcutter.Revision {
	var phases []boxcutter.Phase
	for i, slots := range rev.phases {
		var objects []client.Object
		for _, slot := range slots {
			objects = append(objects, r.wanted(rev, slot))
		}
		phases = append(phases, boxcutter.NewPhase("phase-"+strconv.Itoa(i), objects))
	}
	name := fmt.Sprintf("rev-%d", rev.number)
	if rev.owner == nil {
		return boxcutter.NewRevision(name, rev.number, phases)
	}
	var siblings []client.Object
	for _, other := range r.revisions {
		if other.uid() != rev.uid() {
			siblings = append(siblings, other.owner)
		}
	}
	return boxcutter.NewRevisionWithOwnerAndSiblings(name, rev.number, phases, rev.owner, r.strategy, siblings)
}

func (r *modelRun) newest() *modelRevision { return r.revisions[len(r.revisions)-1] }

// snapshot is the state of a sequence at one time.
type modelSnapshot map[modelSlot]*unstructured.Unstructured

func (r *modelRun) snapshot() modelSnapshot {
	out := modelSnapshot{}
	for _, slot := range r.slots {
		if obj := r.get(slot); obj != nil {
			out[slot] = obj
		}
	}
	return out
}

func (r *modelRun) get(slot modelSlot) *unstructured.Unstructured {
	obj, err := modelRead(r.ctx, r.world.user, r.sequence.object(slot, 1))
	r.must(err)
	return obj
}

// catchUp waits until the cache has the current objects of the cluster, and no deletion is in progress.
func (r *modelRun) catchUp() {
	if r.world.exact {
		return
	}
	for _, slot := range r.slots {
		r.eventually("the cache shows "+string(slot), func() bool {
			obj := r.get(slot)
			if obj != nil && obj.GetDeletionTimestamp() != nil && !slices.Contains(obj.GetFinalizers(), modelHold) {
				r.hasten(slot, obj)
				return false
			}
			shown, err := modelRead(r.ctx, r.cache, r.sequence.object(slot, 1))
			if err != nil {
				return false
			}
			if obj == nil || obj.GetLabels()[managedByLabel] != r.sequence.managedBy() {
				return shown == nil
			}
			return shown != nil && shown.GetResourceVersion() == obj.GetResourceVersion()
		})
	}
}

// hasten makes the API server process a CRD that is being deleted: if it was not ready to list the instances the first
// time, it retries only after minutes.
func (r *modelRun) hasten(slot modelSlot, obj *unstructured.Unstructured) {
	if slot != modelCRD || time.Since(r.hastened) < time.Second {
		return
	}
	r.hastened = time.Now()
	r.patch(obj, fmt.Sprintf(`{"metadata": {"labels": {"added": %q}}}`, r.value()))
}

// living draws a revision without teardown.
func (r *modelRun) living(rt *rapid.T) *modelRevision {
	var living []*modelRevision
	for _, rev := range r.revisions {
		if !rev.tornDown {
			living = append(living, rev)
		}
	}
	if len(living) == 0 {
		rt.Skip("no revision left")
	}
	return rapid.SampledFrom(living).Draw(rt, "revision")
}

func (r *modelRun) reconcileAny(rt *rapid.T) {
	rev := r.living(rt)
	rt.Logf("reconciling revision %d", rev.number)
	r.step(rt, rev)
}

func (r *modelRun) reconcileNewest(rt *rapid.T) {
	if r.newest().tornDown {
		rt.Skip("the newest revision is being torn down")
	}
	rt.Logf("reconciling revision %d", r.newest().number)
	r.step(rt, r.newest())
}

// step reconciles a revision. If the cache can be outdated, it checks only the invariants, otherwise the exact result.
func (r *modelRun) step(rt *rapid.T, rev *modelRevision) machinery.RevisionResult {
	if !r.world.exact && rapid.Bool().Draw(rt, "in a hurry") {
		result, err := r.reconcile(rev)
		if err != nil {
			rt.Logf("in a hurry: %v", err)
		}
		r.note(rev, result)
		r.noteRewritten()
		return result
	}
	return r.reconcileExactly(rev)
}

func (r *modelRun) reconcile(rev *modelRevision, opts ...boxcutter.RevisionReconcileOption) (machinery.RevisionResult, error) {
	opts = append(opts, boxcutter.WithCollisionProtection(r.rules.protection), modelProbe, boxcutter.WithConcurrency(r.concurrency))
	if r.aggregate {
		opts = append(opts, boxcutter.WithAggregatePhaseReconcileErrors())
	}
	if r.sparing {
		opts = append(opts, boxcutter.WithoutDryRunOfUnchanged())
	}
	return r.engine.Reconcile(r.ctx, r.revision(rev), opts...)
}

// reconcileExactly reconciles a revision and compares the result with the model.
func (r *modelRun) reconcileExactly(rev *modelRevision) machinery.RevisionResult {
	r.Helper()
	deadline := time.Now().Add(waitTimeout)
	for {
		r.catchUp()
		before := r.snapshot()
		verdicts := map[modelSlot]modelVerdict{}
		refused := false
		for slot := range rev.variants {
			verdicts[slot] = r.rules.reconciled(before[slot], rev, r.edited[slot])
			refused = refused || verdicts[slot] == modelRefused
		}
		result, err := r.reconcile(rev)
		if err != nil && !refused {
			if r.world.exact || time.Now().After(deadline) {
				r.Fatalf("reconciling revision %d: %v", rev.number, err)
			}
			r.Logf("retrying: %v", err)
			continue
		}
		r.compare(rev, before, r.snapshot(), verdicts, result, err)
		r.note(rev, result)
		return result
	}
}

// slotOf returns the slot of an object; empty without slot.
func (r *modelRun) slotOf(obj client.Object) modelSlot {
	for _, slot := range r.slots {
		like := r.sequence.object(slot, 1)
		if like.GetName() == obj.GetName() && like.GroupVersionKind() == obj.GetObjectKind().GroupVersionKind() {
			return slot
		}
	}
	return ""
}

// compare checks the effect of a step on every object.
func (r *modelRun) compare(
	rev *modelRevision, before, after modelSnapshot, verdicts map[modelSlot]modelVerdict, result machinery.RevisionResult, err error,
) {
	r.Helper()
	reached, complete := len(result.GetPhases()), true
	actions := map[modelSlot]machinery.Action{}
	for _, phase := range result.GetPhases() {
		if invalid := phase.GetValidationError(); invalid != nil {
			r.Fatalf("validating: %v", invalid)
		}
		for _, object := range phase.GetObjects() {
			actions[r.slotOf(object.Object())] = object.Action()
		}
	}
	for _, slot := range r.slots {
		verdict, phase := verdicts[slot], rev.phaseOf(slot)
		action, acted := actions[slot]
		if err != nil && phase == reached && verdict == modelWrites {
			r.compareFailed(rev, slot, before, after, verdicts)
			continue
		}
		if phase < 0 || phase >= reached || !acted || verdict != modelWrites {
			if !modelSame(before[slot], after[slot]) {
				r.Fatalf("%s, to be %s by revision %d (%v), changed from\n%v\nto\n%v", slot, verdict, rev.number, action, before[slot], after[slot])
			}
		}
		if !acted {
			if phase >= 0 && phase < reached && err == nil {
				r.Fatalf("no result for %s", slot)
			}
			continue
		}
		if want := modelActions(verdict, before[slot]); !slices.Contains(want, action) {
			r.Fatalf("%s, to be %s by revision %d, is %s, want one of %v\nwas %v\nis %v", slot, verdict, rev.number, action, want, before[slot], after[slot])
		}
		complete = complete && verdict != modelCollision
		if verdict != modelWrites {
			continue
		}
		if err := r.isWritten(rev, slot, before[slot], after[slot]); err != nil {
			r.Fatalf("%s after %s by revision %d: %v\n%v", slot, action, rev.number, err, after[slot])
		}
		delete(r.edited, slot)
	}
	complete = complete && err == nil && reached == len(rev.phases)
	if complete != result.IsComplete() && (r.world.exact || reached != 1) {
		r.Fatalf("revision %d is complete: %v, want %v\n%s", rev.number, result.IsComplete(), complete, result)
	}
}

// compareFailed checks an object of the phase that ended with an error. The result does not contain this phase,
// although the engine writes some of its objects: those before the first error, or all of them if errors are
// aggregated.
func (r *modelRun) compareFailed(
	rev *modelRevision, slot modelSlot, before, after modelSnapshot, verdicts map[modelSlot]modelVerdict,
) {
	r.Helper()
	objects := rev.phases[rev.phaseOf(slot)]
	failed := slices.IndexFunc(objects, func(slot modelSlot) bool { return verdicts[slot] == modelRefused })
	reached := r.aggregate || slices.Index(objects, slot) < failed
	unchanged := modelSame(before[slot], after[slot])
	switch {
	case unchanged && (!r.world.exact || !reached):
		return
	case !unchanged && !reached && r.concurrency == 1:
		r.Fatalf("%s changed after the first error of revision %d from\n%v\nto\n%v", slot, rev.number, before[slot], after[slot])
	}
	if err := r.isWritten(rev, slot, before[slot], after[slot]); err != nil {
		r.Fatalf("%s after a failed step of revision %d: %v\n%v", slot, rev.number, err, after[slot])
	}
	delete(r.edited, slot)
}

func modelActions(verdict modelVerdict, before *unstructured.Unstructured) []machinery.Action {
	switch {
	case verdict == modelProgressed:
		return []machinery.Action{machinery.ActionProgressed}
	case verdict == modelCollision:
		return []machinery.Action{machinery.ActionCollision}
	case verdict == modelRefused:
		return nil
	case before == nil:
		return []machinery.Action{machinery.ActionCreated}
	default:
		return []machinery.Action{machinery.ActionIdle, machinery.ActionUpdated, machinery.ActionRecovered}
	}
}

func (r *modelRun) isWritten(rev *modelRevision, slot modelSlot, before, after *unstructured.Unstructured) error {
	switch {
	case after == nil:
		return fmt.Errorf("the object is gone")
	case before != nil && before.GetUID() != after.GetUID():
		return fmt.Errorf("the object was recreated")
	case !r.rules.has(after, rev):
		return fmt.Errorf("the object does not belong to the revision")
	default:
		return r.rules.asWanted(after, r.wanted(rev, slot))
	}
}

// note records the secured objects of a result.
func (r *modelRun) note(rev *modelRevision, result machinery.RevisionResult) {
	for slot := range r.secured {
		takes := r.complete != rev && (r.complete.number < rev.number || r.rules.takesBack())
		if obj := r.get(slot); obj != nil && takes && r.rules.has(obj, rev) {
			delete(r.secured, slot) // adopted, or taken back
		}
	}
	if result == nil || !result.IsComplete() || rev != r.newest() {
		return
	}
	r.complete, r.secured = rev, map[modelSlot]bool{}
	for _, slot := range r.slots {
		obj := r.get(slot)
		if rev.variants[slot] == 0 || obj == nil || obj.GetDeletionTimestamp() != nil || !r.rules.has(obj, rev) {
			continue
		}
		r.secured[slot] = slot != modelInstance || r.secured[modelCRD]
	}
}

// noteRewritten records that the engine may have restored an edited revision annotation: its field manager then owns
// it.
func (r *modelRun) noteRewritten() {
	for slot := range r.edited {
		obj := r.get(slot)
		if obj == nil || slices.ContainsFunc(obj.GetManagedFields(), func(entry metav1.ManagedFieldsEntry) bool {
			return entry.Manager == fieldOwner && entry.FieldsV1 != nil && strings.Contains(entry.FieldsV1.GetRawString(), `"f:`+revisionMark+`"`)
		}) {
			delete(r.edited, slot)
		}
	}
}

// checkSecured checks that the newest complete revision has lost no object.
func (r *modelRun) checkSecured(*rapid.T) {
	r.checkDeletes()
	for slot, secured := range r.secured {
		if !secured {
			continue
		}
		obj := r.get(slot)
		if obj == nil || obj.GetDeletionTimestamp() != nil || !r.rules.has(obj, r.complete) {
			r.Fatalf("revision %d has lost %s: %v", r.complete.number, slot, obj)
		}
	}
}

// checkDelete records an object that is about to be deleted and does not belong to the revision in teardown.
func (r *modelRun) checkDelete(obj *unstructured.Unstructured) {
	slot := r.slotOf(obj)
	if r.removing != nil && r.removing.variants[slot] > 0 && r.rules.mayDelete(obj, r.removing, r.edited[slot]) {
		return
	}
	r.wrong.add(fmt.Sprintf("deleting %v", obj))
}

func (r *modelRun) checkDeletes() {
	if wrong := r.wrong.take(); len(wrong) > 0 {
		r.Fatal(strings.Join(wrong, "\n"))
	}
}

// pauseAny reconciles a paused revision. This changes nothing.
func (r *modelRun) pauseAny(rt *rapid.T) {
	rev := r.living(rt)
	r.catchUp()
	before := r.snapshot()
	if _, err := r.reconcile(rev, boxcutter.WithPaused{}); err != nil {
		rt.Logf("paused: %v", err)
	}
	after := r.snapshot()
	for _, slot := range r.slots {
		if !modelSame(before[slot], after[slot]) {
			r.Fatalf("%s changed during a pause from\n%v\nto\n%v", slot, before[slot], after[slot])
		}
	}
}

func (r *modelRun) teardownAny(rt *rapid.T) {
	rev := rapid.SampledFrom(r.revisions).Draw(rt, "revision")
	rt.Logf("tearing down revision %d", rev.number)
	if r.world.exact || !rapid.Bool().Draw(rt, "in a hurry") {
		r.teardownExactly(rev)
		return
	}
	if _, err := r.teardown(rev); err != nil {
		rt.Logf("in a hurry: %v", err)
	}
}

func (r *modelRun) teardown(rev *modelRevision) (machinery.RevisionTeardownResult, error) {
	rev.tornDown = true
	// The objects of a revision are deleted with it, and the objects of a shared owner with any of its
	// revisions.
	if r.complete != nil && (rev == r.complete || r.rules.ownership == modelShared) {
		r.secured = map[modelSlot]bool{}
	}
	r.removing = rev
	opts := []boxcutter.RevisionTeardownOption{boxcutter.WithConcurrency(r.concurrency)}
	if r.aggregate {
		opts = append(opts, boxcutter.WithAggregatePhaseTeardownErrors())
	}
	result, err := r.engine.Teardown(r.ctx, r.revision(rev), opts...)
	r.removing = nil
	r.checkDeletes()
	return result, err
}

// teardownExactly tears down a revision and compares the result with the model.
func (r *modelRun) teardownExactly(rev *modelRevision) machinery.RevisionTeardownResult {
	r.Helper()
	deadline := time.Now().Add(waitTimeout)
	for {
		r.catchUp()
		before := r.snapshot()
		result, err := r.teardown(rev)
		if err == nil {
			r.compareTeardown(rev, before, r.snapshot(), result)
			return result
		}
		if r.world.exact || time.Now().After(deadline) {
			r.Fatalf("tearing down revision %d: %v", rev.number, err)
		}
		r.Logf("retrying: %v", err)
	}
}

func (r *modelRun) compareTeardown(rev *modelRevision, before, after modelSnapshot, result machinery.RevisionTeardownResult) {
	r.Helper()
	first := len(rev.phases) - len(result.GetPhases())
	gone := true
	for _, slot := range r.slots {
		phase := rev.phaseOf(slot)
		obj := before[slot]
		switch {
		case phase < first || obj == nil:
			if !modelSame(obj, after[slot]) && !modelCascaded(slot, after) {
				r.Fatalf("%s, which the teardown must ignore, changed from\n%v\nto\n%v", slot, obj, after[slot])
			}
		case r.rules.tornDown(obj, rev, r.edited[slot]) == modelDeleted:
			gone = false
			if after[slot] != nil && after[slot].GetDeletionTimestamp() == nil {
				r.Fatalf("%s still exists: %v", slot, after[slot])
			}
		case modelCascaded(slot, after):
			continue
		default:
			if err := r.isReleased(rev, obj, after[slot]); err != nil {
				r.Fatalf("%s should be released: %v\nit changed from %v\nto %v", slot, err, obj, after[slot])
			}
		}
	}
	if complete := gone && first == 0; complete != result.IsComplete() {
		r.Fatalf("revision %d is gone: %v, want %v\n%s", rev.number, result.IsComplete(), complete, result)
	}
}

// modelCascaded reports whether the API server has deleted an instance together with its CRD. A revision with the owner
// of a newer one deletes the CRD of both.
func modelCascaded(slot modelSlot, after modelSnapshot) bool {
	definition := after[modelCRD]
	return slot == modelInstance && after[slot] == nil && (definition == nil || definition.GetDeletionTimestamp() != nil)
}

// isReleased returns an error unless only the owners of an object have changed.
func (r *modelRun) isReleased(rev *modelRevision, before, after *unstructured.Unstructured) error {
	if after == nil {
		return fmt.Errorf("the object is gone")
	}
	if rev.owner != nil && r.rules.ownership.view(after).owns(rev.uid()) {
		return fmt.Errorf("the revision is still an owner")
	}
	if r.rules.ownership.view(before).controller != r.rules.ownership.view(after).controller {
		return fmt.Errorf("its controller has changed")
	}
	if !modelSame(modelUnowned(before), modelUnowned(after)) {
		return fmt.Errorf("the object has changed")
	}
	return nil
}

func modelUnowned(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := obj.DeepCopy()
	out.SetOwnerReferences(nil)
	annotations := out.GetAnnotations()
	delete(annotations, ownersMark)
	out.SetAnnotations(annotations)
	return out
}
