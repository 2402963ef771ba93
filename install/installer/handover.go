// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"pkg.package-operator.run/boxcutter/machinery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/install/status"
)

// Objects of cluster-capi-operator are adopted without the adopt-existing annotation,
// because an upgrade runs unattended. An adoption takes two writes. The first removes
// the predecessor's revision number from the object and transfers the ownership of the
// applied fields; the second is the apply. If the process ends in between, the next
// process finds an object that is already handed over.

// takeOver hands over the colliding objects of cluster-capi-operator, and adds them to adoptable.
func (e *Engine) takeOver(ctx context.Context, rev *loadedRevision, result machinery.RevisionResult, adoptable sets.Set[string]) error {
	var failed []error
	for _, phase := range result.GetPhases() {
		for _, object := range phase.GetObjects() {
			actual, ok := object.Object().(*unstructured.Unstructured)
			if !ok || object.Action() != machinery.ActionCollision {
				continue
			}
			switch {
			case predecessor.HandedOver(actual):
			case predecessor.Owns(actual):
				if err := e.handOver(ctx, actual); err != nil {
					failed = append(failed, err)
					continue
				}
			default:
				continue
			}
			adoptable.Insert(describe(actual))
			rev.adopted = append(rev.adopted, describe(actual))
			e.recordAdoption(rev.name, actual)
		}
	}
	rev.fromPredecessor = e.adoptions[rev.name]
	return errors.Join(failed...)
}

// recordAdoption records the revision number that an adopted object has in cluster-capi-operator; 0 if it was handed over
// before.
func (e *Engine) recordAdoption(version string, adopted *unstructured.Unstructured) {
	if e.adoptions == nil {
		e.adoptions = map[string]map[string]int64{}
	}
	if e.adoptions[version] == nil {
		e.adoptions[version] = map[string]int64{}
	}
	name := describe(adopted)
	number, _ := predecessor.Revision(adopted)
	e.adoptions[version][name] = max(e.adoptions[version][name], number)
}

// adoptionMessage counts the objects that a version has adopted during its rollout, and names the revision that
// cluster-capi-operator has installed only partially; empty if there are none.
func adoptionMessage(adopted map[string]int64) string {
	if len(adopted) == 0 {
		return ""
	}
	message := fmt.Sprintf("; adopted %d object(s) of %s", len(adopted), predecessor.Name)
	counts := map[int64]int{}
	for _, number := range adopted {
		counts[number]++
	}
	delete(counts, 0)
	numbers := slices.Sorted(maps.Keys(counts))
	if len(numbers) < 2 {
		return message
	}
	older := make([]string, 0, len(numbers))
	for _, number := range numbers[:len(numbers)-1] {
		older = append(older, fmt.Sprintf("%d of revision %d", counts[number], number))
	}
	return message + fmt.Sprintf(", which has installed revision %d partially: %s", numbers[len(numbers)-1], strings.Join(older, ", "))
}

// ofPredecessor reports whether an object belongs to cluster-capi-operator, or was handed over.
func ofPredecessor(obj client.Object) bool {
	actual, ok := obj.(*unstructured.Unstructured)
	return ok && (predecessor.Owns(actual) || predecessor.HandedOver(actual))
}

// handOver makes the first of the two writes. A conflict means that the object has
// changed since it was read; the next reconcile decides again.
func (e *Engine) handOver(ctx context.Context, actual *unstructured.Unstructured) error {
	changed, err := predecessor.HandOver(actual)
	if err != nil {
		return err
	}
	patch := client.MergeFromWithOptions(actual, client.MergeFromWithOptimisticLock{})
	err = e.Writer.Patch(ctx, changed, patch, client.FieldOwner(v1alpha1.FieldOwner))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("taking %s over from %s: %w", describe(actual), predecessor.Name, err)
	}
	return nil
}

// adoptionEvents reports the objects that a version has adopted.
func adoptionEvents(ctx context.Context, rev *loadedRevision) []status.Event {
	if len(rev.adopted) == 0 {
		return nil
	}
	adopted := slices.Compact(slices.Sorted(slices.Values(rev.adopted)))
	message := fmt.Sprintf("version %s adopted %d object(s) of %s: %s", rev.name, len(adopted), predecessor.Name, strings.Join(adopted, ", "))
	log.FromContext(ctx).Info("Adopted objects", "version", rev.name, "from", predecessor.Name, "objects", adopted)
	return []status.Event{{Reason: status.ObjectsAdopted, Message: message}}
}
