// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"strings"

	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
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
	var from, to *loadedRevision
	var err error
	if current != nil {
		if from, err = s.load(*current); err == nil {
			messages = append(messages, r.drift(ctx, from, &outcome))
		}
	}
	if desired != nil && versions.DesiredVersion != versions.CurrentVersion && err == nil {
		if to, err = s.load(*desired); err == nil {
			if err = r.Engine.plan(ctx, to); err == nil {
				err = r.Engine.trust(ctx, to)
			}
		}
	}
	switch {
	case err != nil:
		messages = append(messages, err.Error())
	case to != nil && from != nil:
		messages = append(messages, pendingChanges(to.name, from.phases, to.phases))
	case to != nil:
		messages = append(messages, pendingChanges(to.name, nil, to.phases))
	}
	outcome.Message = strings.Join(messages, "; ")
	r.log.once(ctx, "Paused", outcome.Message)
	return outcome
}
