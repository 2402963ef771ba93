// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/managedcache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/replacing"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/servingcert"
	"github.com/capi-installer/capi-installer/internal/crdpack"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Engine applies and tears down the objects of revisions with boxcutter.
type Engine struct {
	// Revisions is boxcutter's engine.
	Revisions *boxcutter.RevisionEngine
	// Owners writes and reads the owners of an object in an annotation.
	Owners Owners
	// Cache watches the kinds of the installed objects.
	Cache managedcache.TrackingCache
	// Reader reads installed objects from the cache.
	Reader client.Reader
	// Versions reads the identity and the resource version of installed objects from the cache,
	// without decoding them.
	Versions client.Reader
	// Metadata reads the metadata of CRDs from a cache.
	Metadata client.Reader
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// Mapper maps kinds to resources; nil derives the resources from the names of the kinds.
	Mapper meta.RESTMapper
	// Reviews creates access reviews, with which a rollout checks the installer's permissions; nil skips the check.
	Reviews client.Writer
	// Writer writes to the API server.
	Writer client.Writer
	// Replacer is the writer of Revisions; nil if that replaces no objects.
	Replacer *replacing.Writer

	// Certificates issues the certificates that objects request with annotations.
	Certificates servingcert.Issuer

	// PolicyDelay is the time until all API servers enforce an admission policy that
	// one of them enforces; 0 means two seconds.
	PolicyDelay time.Duration

	plans map[string]plan
	// adoptions are the objects of cluster-capi-operator that each version has adopted.
	adoptions map[string]map[string]int64
	// compared are the phases that need no reconcile until an object changes, by version.
	compared map[string]comparisons
	// certified are the last checks of the Services with a certificate.
	certified map[object.Identity]certified
	// changes are those of the objects in Cache.
	changes changes
	// checks are the results of the unmanaged CRDs that the installer checks.
	checks map[string]crdCheck
	// policyMayExist is set while the policy of the deletion guard may exist,
	// policyChecked once this process has deleted the policy that an earlier process
	// may have left behind.
	policyMayExist, policyChecked bool
	// permittedVersions has the version that was last found to be permitted.
	permittedVersions sets.Set[string]
	// roleMayExist and roleChecked are the same for the role that lets the installer list instances.
	roleMayExist, roleChecked bool
}

// ManagedByLabel is the label that boxcutter writes on every installed object.
// The cache holds only objects with this label.
const ManagedByLabel = "app.kubernetes.io/managed-by"

// availableProbe is the type of the probe that checks availability.
const availableProbe = "Available"

// apply brings the cluster one step closer to the revision. The certificates of Services
// follow their creation.
func (e *Engine) apply(ctx context.Context, rev *loadedRevision) (machinery.RevisionResult, error) {
	if err := e.plan(ctx, rev); err != nil {
		return nil, err
	}
	if err := e.permitted(ctx, rev); err != nil {
		return nil, err
	}
	if err := e.prepare(ctx, rev); err != nil {
		return nil, err
	}
	if err := e.Certificates.Prepare(ctx, rev.requesting); err != nil {
		return nil, err
	}
	if err := e.trust(ctx, rev); err != nil {
		return nil, err
	}
	result, err := e.applyObjects(ctx, rev)
	return result, errors.Join(err, e.issue(ctx, rev))
}

// trust writes the CA bundle of the cluster into the objects that request it.
func (e *Engine) trust(ctx context.Context, rev *loadedRevision) error {
	bundle, err := e.Certificates.Trust(ctx, rev.requesting)
	rev.authority = string(bundle)
	rev.key += " trusting " + rev.authority
	return err
}

// applyObjects applies the objects of the revision. It skips objects that a newer
// revision has adopted, and adopts colliding objects that are adoptable.
func (e *Engine) applyObjects(ctx context.Context, rev *loadedRevision) (machinery.RevisionResult, error) {
	if rev.scope == controlledOnly {
		if err := e.keepControlled(ctx, rev, e.Reader); err != nil {
			return nil, err
		}
	}
	result, err := e.reconcile(ctx, rev, nil)
	if onlyConflicts(err) { // A stale cache causes conflicts; a second attempt resolves them.
		result, err = e.reconcile(ctx, rev, nil)
	}
	adopted := sets.New[string]()
	for result != nil {
		found, errAdoptable := e.adoptable(ctx, rev, result)
		if errAdoptable != nil {
			return result, errors.Join(err, errAdoptable)
		}
		if adopted.IsSuperset(found) {
			return result, errors.Join(err, e.clearAdoptAnnotations(ctx, rev, result))
		}
		// Also after an error: it may concern another object. The objects of the next
		// phase collide only after those of this one are adopted.
		adopted = adopted.Union(found)
		result, err = e.reconcile(ctx, rev, adopted)
	}
	return nil, err
}

// adoptable returns the colliding objects that the revision may adopt.
func (e *Engine) adoptable(ctx context.Context, rev *loadedRevision, result machinery.RevisionResult) (sets.Set[string], error) {
	found := offered(result)
	if err := e.addFormerlyUnmanaged(ctx, rev, result, found); err != nil {
		return nil, err
	}
	return found, e.takeOver(ctx, rev, result, found)
}

// reconcile reconciles the revision once. adoptable are the colliding objects
// that may be adopted.
func (e *Engine) reconcile(ctx context.Context, rev *loadedRevision, adoptable sets.Set[string], further ...boxcutter.RevisionReconcileOption) (machinery.RevisionResult, error) {
	options := []boxcutter.RevisionReconcileOption{
		boxcutter.WithProbe(boxcutter.ProgressProbeType, progressProbe(rev)),
		boxcutter.WithProbe(availableProbe, probe.Available()),
		boxcutter.WithAggregatePhaseReconcileErrors(),
		engineOptions, progressDeadline(rev.deadline), e.unchangedSince(rev),
	}
	return e.reconcileScope(ctx, rev, slices.Concat(options, adoptions(rev.phases, adoptable), further)...)
}

// prepare divides the revision into phases and has the cache watch its kinds.
func (e *Engine) prepare(ctx context.Context, rev *loadedRevision) error {
	if err := e.plan(ctx, rev); err != nil {
		return err
	}
	if err := e.Cache.Watch(ctx, ownerOf(rev.owner), rev.kinds); err != nil {
		return fmt.Errorf("watching the objects of version %s: %w", rev.name, err)
	}
	return nil
}

// forget drops the plan of a removed revision and the watches that only it needed.
func (e *Engine) forget(ctx context.Context, rev *loadedRevision) error {
	delete(e.plans, rev.name)
	delete(e.adoptions, rev.name)
	delete(e.compared, rev.name)
	e.forgetChecks(rev)
	if err := e.Cache.Free(ctx, ownerOf(rev.owner)); err != nil {
		return fmt.Errorf("stopping the watches of version %s: %w", rev.name, err)
	}
	return nil
}

// revision returns phases of a revision as a boxcutter revision whose objects can be applied.
func (e *Engine) revision(rev *loadedRevision, of []revision.Phase) (boxcutter.Revision, error) {
	whole := make([]revision.Phase, len(of))
	for i, phase := range of {
		objects, err := applied(phase.Objects)
		if err != nil {
			return nil, err
		}
		whole[i] = revision.Phase{Name: phase.Name, Objects: objects}
	}
	return e.packedRevision(rev, whole), nil
}

// packedRevision returns phases of a revision as a boxcutter revision. If they have packed CRDs, it can be checked and
// torn down, but not applied.
func (e *Engine) packedRevision(rev *loadedRevision, of []revision.Phase) boxcutter.Revision {
	phases := make([]boxcutter.Phase, len(of))
	for i, phase := range of {
		objects := make([]client.Object, len(phase.Objects))
		for j, obj := range phase.Objects {
			objects[j] = obj
		}
		phases[i] = boxcutter.NewPhase(phase.Name, objects)
	}
	// Options are passed in one call: the original's builder replaces earlier ones.
	owner := boxcutter.WithOwner(ownerOf(rev.owner), e.Owners)
	return boxcutter.NewRevision(rev.owner, rev.number, phases).
		WithReconcileOptions(owner, boxcutter.WithSiblingOwnerClassifier(isVersion)).
		WithTeardownOptions(owner)
}

// reversed returns the phases with their objects in reverse order. boxcutter tears a
// phase down in the order of its objects, and an object must be deleted before the
// objects that it depends on.
func reversed(phases []revision.Phase) []revision.Phase {
	out := slices.Clone(phases)
	for i := range out {
		out[i].Objects = slices.Clone(out[i].Objects)
		slices.Reverse(out[i].Objects)
	}
	return out
}

// ownerOf returns the owner of the objects of a version. Its UID is derived from the
// version's name, which is never reused, rather than from the revision ConfigMap, so
// the objects keep their owner when a deleted ConfigMap is recreated.
func ownerOf(version string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "ConfigMap"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: v1alpha1.OperatorNamespace,
			Name:      version,
			UID:       types.UID("revision-" + version),
		},
	}
}

// isVersion reports whether an owner is a version of this installer.
func isVersion(owner metav1.OwnerReference) bool {
	return owner.Kind == "ConfigMap" && owner.UID == ownerOf(owner.Name).UID
}

// applied returns objects as they are applied.
func applied(packed []*unstructured.Unstructured) ([]*unstructured.Unstructured, error) {
	out := make([]*unstructured.Unstructured, len(packed))
	for i, obj := range packed {
		whole, err := crdpack.Unpack(obj)
		if err != nil {
			return nil, err
		}
		out[i] = asApplied(whole)
	}
	return out, nil
}

// asApplied returns a copy of an object, because the original boxcutter writes its label into it, without the adopt-existing annotation, which only the
// installer reads, and without the rules of an aggregated ClusterRole, which the
// aggregation controller writes.
func asApplied(obj *unstructured.Unstructured) *unstructured.Unstructured {
	out := obj.DeepCopy()
	unstructured.RemoveNestedField(out.Object, "metadata", "annotations", v1alpha1.AdoptAnnotation)
	if _, aggregated := obj.Object["aggregationRule"]; aggregated {
		delete(out.Object, "rules")
	}
	return out
}
