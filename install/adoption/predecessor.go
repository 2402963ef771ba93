// SPDX-License-Identifier: Apache-2.0

package adoption

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/predecessor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Objects of cluster-capi-operator are adopted without the adopt-existing annotation,
// because an upgrade runs unattended. An adoption takes two writes. The first removes
// the predecessor's revision number from the object and transfers the ownership of the
// applied fields; the second is the apply. If the process ends in between, the next
// process finds an object that is already handed over.

// takeOver hands over the colliding objects of cluster-capi-operator, and adds them to the
// decision.
func (a *Adopter) takeOver(ctx context.Context, namespace, version string, collisions []engine.Object, into *Decision) error {
	var failed []error
	for _, o := range collisions {
		if !predecessor.Adoptable(namespace, o.Actual) {
			continue
		}
		if !predecessor.HandedOver(o.Actual) {
			if err := a.handOver(ctx, o.Actual); err != nil {
				failed = append(failed, err)
				continue
			}
		}
		into.Adopt.Insert(o.Identity)
		into.Taken = append(into.Taken, o.Identity)
		a.record(version, o)
	}
	return errors.Join(failed...)
}

// handOver makes the first of the two writes. A conflict means that the object has
// changed since it was read; the next reconcile decides again.
func (a *Adopter) handOver(ctx context.Context, actual *unstructured.Unstructured) error {
	changed, err := predecessor.HandOver(actual)
	if err != nil {
		return err
	}
	patch := client.MergeFromWithOptions(actual, client.MergeFromWithOptimisticLock{})
	err = a.Writer.Patch(ctx, changed, patch, client.FieldOwner(v1alpha1.FieldOwner))
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("taking %s over from %s: %w", object.Describe(actual), predecessor.Name, err)
	}
	return nil
}

// record records the revision number that an adopted object has in cluster-capi-operator; 0
// if it was handed over before.
func (a *Adopter) record(version string, o engine.Object) {
	if a.taken == nil {
		a.taken = map[string]Taken{}
	}
	if a.taken[version] == nil {
		a.taken[version] = Taken{}
	}
	number, _ := predecessor.Revision(o.Actual)
	a.taken[version][o.Identity] = max(a.taken[version][o.Identity], number)
}

// Taken maps the objects of cluster-capi-operator that a version has adopted to their
// revision numbers there; 0 if the number is unknown.
type Taken map[object.Identity]int64

// Taken returns the objects of cluster-capi-operator that this process has adopted during
// the rollout of a version.
func (a *Adopter) Taken(version string) Taken { return maps.Clone(a.taken[version]) }

// Forget drops what is known of the rollout of a version, and of all if it is empty.
func (a *Adopter) Forget(version string) {
	delete(a.taken, version)
	if version == "" {
		a.taken = nil
	}
}

// String counts the objects, and names the revision that cluster-capi-operator has installed
// only partially; empty if there are none.
func (t Taken) String() string {
	if len(t) == 0 {
		return ""
	}
	message := fmt.Sprintf("; adopted %d object(s) of %s", len(t), predecessor.Name)
	counts := map[int64]int{}
	for _, number := range t {
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
