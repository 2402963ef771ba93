// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/text"
)

// pausedOutcome reports the changes that a paused installer would make: the drift from
// the current version, and the changes from the current to the desired version.
//
// Dry runs determine the drift. The pending changes are computed from the two versions,
// because a dry run would also report the new owner in every object.
func (r *Reconciler) pausedOutcome(ctx context.Context, s state) status.Outcome {
	versions := s.Cluster.Status
	outcome := status.Outcome{Reason: reason.Paused}
	messages := []string{"spec.installerMode is Paused"}
	current, desired := versions.Version(versions.CurrentVersion), versions.Version(versions.DesiredVersion)
	var from, to plan
	var err error
	if current != nil {
		if from, err = r.pausedPlan(ctx, s, *current); err == nil {
			messages = append(messages, r.drift(ctx, from, &outcome))
		}
	}
	if desired != nil && versions.DesiredVersion != versions.CurrentVersion && err == nil {
		if to, err = r.pausedPlan(ctx, s, *desired); err == nil {
			messages = append(messages, pendingChanges(to.name, from.phases, to.phases))
		}
	}
	if err != nil {
		messages = append(messages, err.Error())
	}
	outcome.Message = strings.Join(messages, "; ")
	r.log.once(ctx, "Paused", outcome.Message)
	return outcome
}

// pausedPlan returns the plan of a version as it would be applied.
func (r *Reconciler) pausedPlan(ctx context.Context, s state, entry v1alpha1.Version) (plan, error) {
	v, err := s.load(entry)
	if err != nil {
		return plan{}, err
	}
	p, err := r.Applier.planOf(ctx, v)
	if err = cmp.Or(err, p.concealed); err != nil {
		return plan{}, err
	}
	return r.Applier.trust(ctx, p)
}

// drift compares the cluster with a completely installed version in dry runs. It
// returns a message, and records in the outcome whether the version is available.
func (r *Reconciler) drift(ctx context.Context, p plan, outcome *status.Outcome) string {
	result, err := r.Applier.compare(ctx, p)
	if err != nil {
		return fmt.Sprintf("comparing version %s with the cluster failed: %v", p.name, err)
	}
	outcome.Installed, outcome.Related = new(r.Applier.Engine.Available(ctx, p.revision(), result)), p.related()
	found := differences(result)
	if found == nil {
		return "no drift from version " + p.name
	}
	return fmt.Sprintf("drift from version %s, %d difference(s): %s", p.name, len(found), text.First(10, found))
}
