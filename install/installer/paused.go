// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
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
	return p.trusting(ctx, r.Applier.Certificates)
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

// pendingChanges describes the changes between the phases of two versions; name is the
// second version.
func pendingChanges(name string, from, to []revision.Phase) string {
	before, after := revision.ByIdentity(from), revision.ByIdentity(to)
	var created, changed, removed []string
	for _, obj := range revision.Objects(to) {
		switch old := before[object.IdentityOf(obj)]; {
		case old == nil:
			created = append(created, object.Describe(obj))
		case !equality.Semantic.DeepEqual(old.Object, obj.Object):
			changed = append(changed, object.Describe(obj))
		}
	}
	for _, obj := range revision.Objects(from) {
		if after[object.IdentityOf(obj)] == nil {
			removed = append(removed, object.Describe(obj))
		}
	}
	var parts []string
	for _, change := range []struct {
		verb    string
		objects []string
	}{{"change", changed}, {"create", created}, {"remove", removed}} {
		if change.objects != nil {
			parts = append(parts, fmt.Sprintf("%s %d: %s", change.verb, len(change.objects), text.First(10, change.objects)))
		}
	}
	if parts == nil {
		return "version " + name + " is pending and would change no object"
	}
	return "version " + name + " is pending and would " + strings.Join(parts, "; ")
}
