// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"fmt"
	"strings"

	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/text"
)

// driftEvents returns the event about external changes that this reconcile has
// reverted. The current version was installed completely, so another actor must have
// modified or deleted each object that was written. The status names the current
// version, so a restart of the installer causes no such event.
func driftEvents(cluster *v1alpha1.ClusterAPI, version string, result machinery.RevisionResult) []status.Event {
	if result == nil || version != cluster.Status.CurrentVersion {
		return nil
	}
	var reverted []string
	for object := range objectResults(result) {
		if change := externalChange(object.Action()); change != "" && !object.IsPaused() {
			countDrift(object.Object())
			reverted = append(reverted, describe(object.Object())+" ("+change+")")
		}
	}
	if reverted == nil {
		return nil
	}
	return []status.Event{{Reason: status.DriftCorrected, Warning: true, Message: "reverted external changes: " + strings.Join(reverted, ", ")}}
}

// externalChange describes the change that an action reverts; empty if there is none.
func externalChange(action machinery.Action) string {
	switch action {
	case machinery.ActionCreated:
		return "deleted"
	case machinery.ActionUpdated, machinery.ActionRecovered:
		return "modified"
	default:
		return ""
	}
}

// drift compares the cluster with a completely installed version in dry runs. It
// returns a message, and records in the outcome whether the version is available.
func (r *Reconciler) drift(ctx context.Context, rev *loadedRevision, outcome *status.Outcome) string {
	rev.scope = maintenance
	result, err := r.Engine.dryRun(ctx, rev)
	if err != nil {
		return fmt.Sprintf("comparing version %s with the cluster failed: %v", rev.name, err)
	}
	outcome.Installed, outcome.Related = new(available(result)), rev.related
	found := differences(result)
	if err := rejected(result); err != nil {
		found = append(found, err.Error())
	}
	if found == nil {
		return "no drift from version " + rev.name
	}
	return fmt.Sprintf("drift from version %s, %d difference(s): %s", rev.name, len(found), text.First(10, found))
}

// differences lists the objects that a reconcile would write, or fail to write.
func differences(result machinery.RevisionResult) []string {
	var found []string
	for object := range objectResults(result) {
		change := externalChange(object.Action())
		if object.Action() == machinery.ActionCollision {
			change = "managed by another owner"
		}
		if change != "" {
			found = append(found, describe(object.Object())+" ("+change+")")
		}
	}
	return found
}

// dryRun returns the result that apply would have, without writing.
func (e *Engine) dryRun(ctx context.Context, rev *loadedRevision) (machinery.RevisionResult, error) {
	if err := e.prepare(ctx, rev); err != nil {
		return nil, err
	}
	if err := e.trust(ctx, rev); err != nil {
		return nil, err
	}
	return e.reconcile(ctx, rev, nil, boxcutter.WithPaused{})
}
