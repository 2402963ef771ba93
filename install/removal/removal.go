// SPDX-License-Identifier: Apache-2.0

// Package removal removes the objects of a version. It retains unmanaged CRDs, and CRDs that
// have instances: deleting a CRD deletes them.
//
// While CRDs are deleted, an admission policy rejects new instances. It exists only during a pass.
package removal

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/adoption"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/instance"
	"github.com/capi-installer/capi-installer/install/revision"
)

// Remover removes revisions. It is not safe for concurrent use.
type Remover struct {
	// Engine deletes the objects.
	Engine *engine.Engine
	// Live reads from the API server, bypassing the cache.
	Live client.Reader
	// Writer writes to the API server.
	Writer client.Writer
	// Instances lists the instances of CRDs.
	Instances *instance.Access
	// PolicyDelay is the time until all API servers enforce an admission policy that
	// one of them enforces; 0 means two seconds.
	PolicyDelay time.Duration

	// guarded is the policy of the deletion guard.
	guarded instance.Temporary
}

func (r *Remover) crds() crds { return crds{r.Live, r.Writer, r.Engine.Owners} }

func (r *Remover) policy() policy {
	return policy{r.Live, r.Writer, r.Instances.Namespace, &r.guarded, r.Instances.Deleted, r.PolicyDelay}
}

// CleanUp deletes the temporary objects that an earlier process may have left behind.
func (r *Remover) CleanUp(ctx context.Context) error {
	return errors.Join(r.policy().lift(ctx), r.Instances.Withdraw(ctx))
}

// Progress is the result of one pass that removes a version.
type Progress struct {
	engine.Removal
	// Waiting lists the objects that still exist, with their finalizers.
	Waiting []string
	// Retained lists the CRDs that this pass left in the cluster, with the reason.
	Retained []string
	// Deleted lists the CRDs that another client has deleted, and that exist until their instances are gone.
	Deleted []string
}

// maxAttempts limits how often a pass is repeated because a CRD got instances after the
// check.
const maxAttempts = 5

// Remove deletes the objects that only the owners of this revision control, last phase first. It retains
// unmanaged CRDs and CRDs that have instances. Stop comes first.
func (r *Remover) Remove(ctx context.Context, rev engine.Revision, unmanaged []string) (progress Progress, err error) {
	owners := sets.List(rev.Owners().Insert(rev.Name)) // the phases do not contain the unmanaged CRDs
	ours := func(crd *unstructured.Unstructured) bool {
		return slices.ContainsFunc(owners, func(owner string) bool { return r.Engine.Owners.Controls(owner, crd) })
	}
	if err := r.ReleaseCRDs(ctx, unmanaged, ours); err != nil {
		return Progress{}, err
	}
	defer r.Instances.End(ctx, &err)
	for attempt := 1; ; attempt++ {
		progress, err = r.pass(ctx, rev)
		if !errors.As(err, new(*inUseError)) || attempt == maxAttempts {
			return progress, err
		}
	}
}

// pass deletes the objects of a revision. It retains CRDs that have instances, and returns an
// *inUseError if one gets an instance before it is deleted.
func (r *Remover) pass(ctx context.Context, rev engine.Revision) (progress Progress, err error) {
	guard := &deletionGuard{policy: r.policy(), instances: r.Instances, version: rev.Name}
	how, retained, err := r.retain(ctx, rev, guard)
	if err != nil {
		return Progress{}, err
	}
	defer func() { err = errors.Join(err, r.policy().lift(context.WithoutCancel(ctx))) }()
	removed, err := r.Engine.Remove(ctx, rev, how)
	if err != nil {
		return Progress{}, err
	}
	if err := r.crds().unmarkRetained(ctx, rev, removed, retained); err != nil {
		return Progress{}, err
	}
	if err := r.EndConversions(ctx, rev); err != nil {
		return Progress{}, err
	}
	return progressOf(ctx, r.Engine.Reader, removed, retained)
}

// progressOf describes the objects that remain after a pass. Retained CRDs count once their
// phase is reached.
func progressOf(ctx context.Context, reader client.Reader, removed engine.Removal, retained map[string][]retainedCRD) (Progress, error) {
	out := Progress{Removal: removed}
	for _, phase := range removed.Phases {
		for _, crd := range retained[phase.Name] {
			if crd.deleted {
				out.Deleted = append(out.Deleted, crd.String())
			} else {
				out.Retained = append(out.Retained, crd.String())
			}
		}
		for _, waiting := range phase.Waiting {
			state, err := deletionState(ctx, reader, waiting)
			if err != nil {
				return out, err
			}
			out.Waiting = append(out.Waiting, waiting.String()+state)
		}
	}
	return out, nil
}

// deletionState returns the time of an object's deletion and the finalizers that
// block it; empty if the object is gone, or the cache has not seen its deletion yet.
func deletionState(ctx context.Context, reader client.Reader, ref engine.Reference) (string, error) {
	obj, err := ref.Read(ctx, reader)
	if apierrors.IsNotFound(err) || err == nil && obj.GetDeletionTimestamp() == nil {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("reading %s: %w", ref, err)
	}
	return " (" + engine.Deletion(obj) + ")", nil
}

// DeleteRecreatedRoles deletes the aggregated ClusterRoles of a removed revision
// that the aggregation controller has recreated.
func (r *Remover) DeleteRecreatedRoles(ctx context.Context, rev engine.Revision) error {
	var failed []error
	for _, role := range revision.Objects(rev.Phases) {
		if _, aggregated := role.Object["aggregationRule"]; !aggregated {
			continue
		}
		actual, err := engine.ReferenceTo(role).Read(ctx, r.Live)
		if err == nil && adoption.RecreatedByAggregation(actual) {
			err = r.Writer.Delete(ctx, actual, client.Preconditions{UID: new(actual.GetUID())})
		}
		failed = append(failed, client.IgnoreNotFound(err))
	}
	return errors.Join(failed...)
}
