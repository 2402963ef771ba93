// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Before the first object of a version is written, the API server is asked, in dry runs, whether it rejects immutable fields in any phase.
// Otherwise a release would stop in its middle, with the earlier phases new. Only such rejections count: others can depend
// on objects of earlier phases, and are found when their phase is reached.

// preflight returns a rejection for each phase with changed immutable fields. It checks each version until it has none.
func (r *Applier) preflight(ctx context.Context, s state, p plan) ([]*engine.Rejection, error) {
	current := s.Cluster.Status.Version(s.Cluster.Status.CurrentVersion)
	if r.DryRuns == nil || current == nil || r.preflighted == p.name {
		return nil, nil
	}
	v, err := s.load(*current)
	if err != nil {
		return nil, nil //nolint:nilerr // the attempt for that version reports the error
	}
	before, err := r.plans.of(v)
	if err != nil {
		return nil, nil //nolint:nilerr // as above
	}
	installed := revision.ByIdentity(before.phases)
	var found []*engine.Rejection
	for _, phase := range p.phases {
		rejection := &engine.Rejection{Phase: phase.Name}
		for _, obj := range phase.Objects {
			if immutable[object.GroupKind(obj)] == nil || !changes(installed[object.IdentityOf(obj)], obj) {
				continue
			}
			err := r.dryRun(ctx, obj)
			if isImmutable(object.GroupKind(obj), err) {
				rejection.Objects = append(rejection.Objects, engine.RejectedObject{Identity: object.IdentityOf(obj), Errors: []error{err}})
			} else if apierrors.IsServiceUnavailable(err) || apierrors.IsTooManyRequests(err) || apierrors.IsTimeout(err) {
				return nil, fmt.Errorf("checking %s before the first write: %w", object.Describe(obj), err)
			}
		}
		if rejection.Objects != nil {
			found = append(found, rejection)
		}
	}
	if found == nil {
		r.preflighted = p.name
	}
	return found, nil
}

// changes reports whether an object is installed with other content.
func changes(before, after *unstructured.Unstructured) bool {
	return before != nil && !equality.Semantic.DeepEqual(before.Object, after.Object)
}

// dryRun asks the API server whether it accepts an object.
func (r *Applier) dryRun(ctx context.Context, obj *unstructured.Unstructured) error {
	return r.DryRuns.Apply(ctx, client.ApplyConfigurationFromUnstructured(obj.DeepCopy()), client.FieldOwner(v1alpha1.FieldOwner), client.ForceOwnership, client.DryRunAll)
}
