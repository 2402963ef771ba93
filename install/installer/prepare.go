// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/guard"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

// The managers of a provider elect a leader with a Lease in their own namespace. So a Deployment that a version moves to another namespace is
// deleted first: otherwise the managers in both namespaces would work on the same objects until the former version is removed.

// prepare prepares the cluster for a phase; released is set if the pods of its component are ready. It returns the
// Deployments that the phase has in another namespace.
func (t trial) prepare(ctx context.Context, phase revision.Phase, released bool) (moved []object.Identity, err error) {
	existing := slices.DeleteFunc(slices.Clone(phase.Objects), func(obj *unstructured.Unstructured) bool {
		return t.passed.created.Has(object.IdentityOf(obj))
	})
	if err := t.guards.Drop(ctx, released, existing...); err != nil {
		return nil, err
	}
	return t.stopMoved(ctx, phase)
}

// stopMoved deletes the Deployments of other versions that a phase of the version has in another namespace, and returns them: the installed version
// must not create them again. It returns a waitingError until their pods have ended. The phases before, such as the CRDs of the component,
// were applied while its webhooks still ran.
func (t trial) stopMoved(ctx context.Context, phase revision.Phase) (moved []object.Identity, err error) {
	if t.guards.Live == nil || !slices.ContainsFunc(phase.Objects, func(obj *unstructured.Unstructured) bool { return object.GroupKind(obj) == object.Deployment }) {
		return nil, nil
	}
	former := map[object.Identity]*unstructured.Unstructured{}
	for _, entry := range t.s.Cluster.Status.Versions {
		if entry.Name != t.plan.name {
			maps.Copy(former, t.plans.objectsOf(t.s, entry))
		}
	}
	moved = movedDeployments(former, phase, slices.Concat(t.plan.phases, t.plan.others))
	var waiting []string
	for _, deployment := range moved {
		exists, err := t.stop(ctx, deployment)
		if err != nil {
			return moved, err
		}
		if exists {
			waiting = append(waiting, deployment.String())
		}
	}
	if waiting != nil {
		return moved, waitingError("waiting for the end of the pods of " + strings.Join(waiting, ", ") + ", which moves to another namespace")
	}
	return moved, nil
}

// movedDeployments returns the Deployments of former versions that a phase of a version has under the same name in another namespace,
// sorted. all are the phases of the version.
func movedDeployments(former map[object.Identity]*unstructured.Unstructured, phase revision.Phase, all []revision.Phase) (moved []object.Identity) {
	names, desired := sets.New[string](), revision.ByIdentity(all)
	for identity := range revision.ByIdentity([]revision.Phase{phase}) {
		if identity.GroupKind == object.Deployment {
			names.Insert(identity.Name)
		}
	}
	for identity := range former {
		if identity.GroupKind == object.Deployment && names.Has(identity.Name) && desired[identity] == nil {
			moved = append(moved, identity)
		}
	}
	slices.SortFunc(moved, func(a, b object.Identity) int { return strings.Compare(a.String(), b.String()) })
	return moved
}

// stop deletes a Deployment of the installer, and reports whether it exists. The API server removes it after its pods.
func (t trial) stop(ctx context.Context, deployment object.Identity) (exists bool, err error) {
	found := &metav1.PartialObjectMetadata{}
	found.SetGroupVersionKind(deployment.GroupKind.WithVersion("v1"))
	err = t.guards.Live.Get(ctx, client.ObjectKey{Namespace: deployment.Namespace, Name: deployment.Name}, found)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case err != nil:
		return false, fmt.Errorf("reading %s before its successor starts in another namespace: %w", deployment, err)
	case revision.Owner(t.s.namespaces.Operator, found) == "": // it belongs to another actor
		return false, nil
	case found.DeletionTimestamp != nil:
		return true, nil
	}
	err = t.guards.Writer.Delete(ctx, found, client.Preconditions{UID: &found.UID}, client.PropagationPolicy(metav1.DeletePropagationForeground))
	if client.IgnoreNotFound(err) != nil {
		return false, fmt.Errorf("deleting %s before its successor starts in another namespace: %w", deployment, err)
	}
	return true, nil
}

// deletions are objects that are deleted for a version: by the administrator, whom conditions have told that the version has them with another
// immutable field, or by the installer, because the version has them in another namespace. The installed version must not create them again.
// A process that starts later finds them again if they exist.
type deletions struct {
	version string
	objects sets.Set[object.Identity]
}

// with returns the deletions with more for a version. They replace those for another version.
func (d deletions) with(version string, objects sets.Set[object.Identity]) deletions {
	if d.version != version {
		d = deletions{version: version}
	}
	d.objects = d.objects.Union(objects)
	return d
}

// reserved returns the objects that are deleted for the desired version, unless it is this version.
func (d deletions) reserved(s state, version string) sets.Set[object.Identity] {
	if desired := s.Cluster.Status.DesiredVersion; desired == version || desired != d.version {
		return nil
	}
	return d.objects
}

// immutable returns the objects of a plan that the API server rejects only because they exist with another immutable field.
func immutable(ctx context.Context, guards *guard.Guards, of plan, result engine.Result) sets.Set[object.Identity] {
	desired := revision.ByIdentity(of.phases)
	out := sets.New[object.Identity]()
	for _, rejection := range result.Rejections() {
		for _, rejected := range rejection.Objects {
			if one := desired[rejected.Identity]; one != nil && !object.DeletesOthers(rejected.GroupKind) && guard.IsImmutable(ctx, guards, one, rejected.Errors...) {
				out.Insert(rejected.Identity)
			}
		}
	}
	return out
}

// withDeletions adds the commands that delete objects to a rejection.
func withDeletions(rejection *engine.Rejection, immutable sets.Set[object.Identity]) error {
	var commands []string
	for _, rejected := range rejection.Objects {
		if immutable.Has(rejected.Identity) {
			commands = append(commands, guard.Deletion(rejected.Identity))
		}
	}
	if commands == nil {
		return rejection
	}
	return fmt.Errorf("%w; only %d new object(s) can be like this: delete the existing ones, and the installer creates them again: %s", rejection, len(commands), strings.Join(commands, "; "))
}
