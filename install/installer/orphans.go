// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/removal"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/text"
)

const (
	// orphanRecheck is the time until the next search while orphans exist.
	orphanRecheck = 5 * time.Second
	// unlistedRecheck is the time until the next search if the API server does not list some kinds.
	unlistedRecheck = 10 * time.Minute
)

// owners returns the versions that objects may name as their owner: the owners of the parts of the versions with a ConfigMap, and of those
// in the status. During an uninstall the status keeps the entries of removed versions. With an error, owners are missing.
func (s state) owners() (sets.Set[string], error) {
	names := sets.New(s.revisions().versions()...)
	if !s.Uninstalling() {
		for _, entry := range s.Cluster.Status.Versions {
			names.Insert(entry.Name)
		}
	}
	known := names.Clone()
	for name := range names {
		parts, err := s.partsOf(name)
		if err != nil {
			return nil, err
		}
		for part := range parts {
			known.Insert(part.Owner)
		}
	}
	return known, nil
}

// partsOf returns the parts of a version: from the status, or from its ConfigMaps if the status has no entry.
func (s state) partsOf(name string) (sets.Set[revision.Part], error) {
	if parts := s.reportedParts(name); parts != nil {
		return parts, nil
	}
	v, err := s.read(name)
	if err != nil {
		return nil, err
	}
	set, err := v.stored.Decode()
	if err != nil {
		return nil, fmt.Errorf("reading version %s: %w", name, err)
	}
	return revision.PartsOf(v1alpha1.Version{Name: v.owner, Components: set.Components()}), nil
}

// removeOrphans removes the objects of versions that do not exist. It searches at the first reconcile of a process, after the removal of
// a version, and when an object of such a version is created or changed. While there are some, the outcome is a removal.
func (r *Reconciler) removeOrphans(ctx context.Context, s state, outcome *status.Outcome) {
	known, err := s.owners()
	if err != nil { // the removal of the unreadable version reports the error; its objects must not look like orphans
		r.searched = nil
		return
	}
	changed := r.Applier.Engine.Changes.TakeOwners()
	now := time.Now()
	due := !r.searchAgain.IsZero() && now.After(r.searchAgain)
	if r.searched != nil && known.IsSuperset(r.searched) && known.IsSuperset(changed) && !due {
		return
	}
	r.searched, r.searchAgain = nil, time.Time{}
	orphans, unlisted, err := r.Orphans.Find(ctx, known)
	if unlisted != nil {
		log.FromContext(ctx).Info("Not searching all kinds for objects whose version does not exist", "causes", errors.Join(unlisted...).Error())
		r.searchAgain = now.Add(unlistedRecheck)
		outcome.RecheckWithin(unlistedRecheck)
	}
	written, failed := r.Orphans.Remove(ctx, orphans)
	outcome.Events = append(outcome.Events, orphanEvents(written)...)
	switch {
	case err != nil: // the search failed: the API server has rejected no deletion
		outcome.Reason, outcome.Err = reason.ApplyFailed, errors.Join(err, failed)
	case failed != nil:
		outcome.Reason, outcome.Err = removalReason(failed), failed
	case len(orphans) > 0:
		outcome.Reason, outcome.Message = reason.TearingDown, "removing objects whose version does not exist: "+text.First(10, described(orphans))
		outcome.RecheckWithin(orphanRecheck)
	default:
		r.searched = known
	}
	for _, orphan := range written {
		log.FromContext(ctx).Info("Removed an object whose version does not exist", "object", orphan.String(), "retained", orphan.Retained())
	}
}

// orphanEvents returns the event about orphans that were removed.
func orphanEvents(written []removal.Orphan) []status.Event {
	var removed, retained []string
	for _, orphan := range written {
		if orphan.Retained() {
			retained = append(retained, orphan.String())
		} else {
			removed = append(removed, orphan.String())
		}
	}
	var parts []string
	if retained != nil {
		parts = append(parts, "retained without owner: "+strings.Join(retained, ", "))
	}
	if removed != nil {
		parts = append(parts, "deleted: "+strings.Join(removed, ", "))
	}
	if parts == nil {
		return nil
	}
	return []status.Event{{Reason: status.OrphansRemoved, Warning: true, Message: "objects whose version does not exist were " + strings.Join(parts, "; ")}}
}

// described returns the names of the orphans, with the finalizers of those that are being deleted.
func described(orphans []removal.Orphan) []string {
	out := make([]string, len(orphans))
	for i, orphan := range orphans {
		if out[i] = orphan.String(); orphan.Object.DeletionTimestamp != nil {
			out[i] += " (" + engine.Deletion(orphan.Object) + ")"
		}
	}
	return out
}
