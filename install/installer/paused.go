// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/status"
)

// review says what would be done if the installer were not paused, and does none
// of it: how the cluster differs from the current version, and what the desired
// one would change.
//
// The first is asked of the API server, in dry runs. The second is told from the
// two versions alone: a version that takes over from another writes itself into
// every object, and that is nothing to report.
func (r *Reconciler) review(ctx context.Context, world world) status.Outcome {
	s := world.cluster.Status
	outcome := status.Outcome{Reason: status.Paused}
	current, desired := s.Version(s.CurrentVersion), s.Version(s.DesiredVersion)
	told := []string{"spec.installerMode is Paused"}
	var from, to *revisionObjects
	var err error
	if current != nil {
		if from, err = r.load(world, *current); err == nil {
			told = append(told, r.drift(ctx, from, &outcome))
		}
	}
	if desired != nil && s.DesiredVersion != s.CurrentVersion && err == nil {
		if to, err = r.load(world, *desired); err == nil {
			err = r.Engine.plan(to)
		}
	}
	switch {
	case err != nil:
		told = append(told, err.Error())
	case to != nil && from != nil:
		told = append(told, pending(to.name, from.phases, to.phases))
	case to != nil:
		told = append(told, pending(to.name, nil, to.phases))
	}
	outcome.Message = strings.Join(told, "; ")
	r.journal.say(ctx, "Paused", outcome.Message)
	return outcome
}

// drift looks how the cluster differs from a version that was installed
// completely, and notes in the outcome whether it works.
func (r *Reconciler) drift(ctx context.Context, rev *revisionObjects, outcome *status.Outcome) string {
	rev.scope = upkeep
	result, err := r.Engine.review(ctx, rev)
	if err != nil {
		return fmt.Sprintf("version %s cannot be compared with the cluster: %v", rev.name, err)
	}
	outcome.Installed, outcome.Related = new(works(result)), related(rev)
	found := differences(result)
	if refused := refused(result); refused != nil {
		found = append(found, refused.Error())
	}
	if found == nil {
		return "the cluster is as version " + rev.name + " has it"
	}
	return fmt.Sprintf("%d difference(s) from version %s: %s", len(found), rev.name, list(found))
}

// differences are the objects that would be written, or cannot be.
func differences(result machinery.RevisionResult) []string {
	words := map[machinery.Action]string{
		machinery.ActionCreated: " (deleted)", machinery.ActionUpdated: " (edited)",
		machinery.ActionRecovered: " (edited)", machinery.ActionCollision: " (taken by somebody else)",
	}
	var found []string
	for _, phase := range result.GetPhases() {
		for _, object := range phase.GetObjects() {
			if word, differs := words[object.Action()]; differs {
				found = append(found, describe(object.Object())+word)
			}
		}
	}
	return found
}

// pending says what a version would change about another one.
func pending(name string, from, to []revision.Phase) string {
	before, after := byName(from), byName(to)
	var created, changed, removed []string
	for _, key := range names(to) {
		old, found := before[key]
		switch {
		case !found:
			created = append(created, key)
		case !equality.Semantic.DeepEqual(old.Object, after[key].Object):
			changed = append(changed, key)
		}
	}
	for _, key := range names(from) {
		if after[key] == nil {
			removed = append(removed, key)
		}
	}
	var parts []string
	for what, objects := range map[string][]string{"change": changed, "create": created, "remove": removed} {
		if objects != nil {
			parts = append(parts, fmt.Sprintf("%s %d: %s", what, len(objects), list(objects)))
		}
	}
	if parts == nil {
		return "version " + name + " waits and would change nothing"
	}
	slices.Sort(parts)
	return "version " + name + " waits and would " + strings.Join(parts, "; ")
}

// names are the objects of phases in their order, byName the objects themselves.
func names(phases []revision.Phase) []string {
	var out []string
	for _, phase := range phases {
		for _, object := range phase.Objects {
			out = append(out, describe(object))
		}
	}
	return out
}

func byName(phases []revision.Phase) map[string]*unstructured.Unstructured {
	out := map[string]*unstructured.Unstructured{}
	for _, phase := range phases {
		for _, object := range phase.Objects {
			out[describe(object)] = object
		}
	}
	return out
}

// list is the first ten, and how many more.
func list(items []string) string {
	const most = 10
	if len(items) <= most {
		return strings.Join(items, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(items[:most], ", "), len(items)-most)
}

// review is what apply would do, without doing it.
func (e *Engine) review(ctx context.Context, rev *revisionObjects) (machinery.RevisionResult, error) {
	if err := e.prepare(ctx, rev); err != nil {
		return nil, err
	}
	return e.reconcile(ctx, rev, nil, boxcutter.WithPaused{})
}

// load reads a version, and checks that it is what the status says.
func (r *Reconciler) load(world world, version v1alpha1.Version) (*revisionObjects, error) {
	rev, err := read(world.configMaps, version.Name)
	if err == nil && rev.digest != string(version.ManifestsDigest) {
		err = fmt.Errorf("revision ConfigMap %s holds %s, not %s as the status says", version.Name, rev.digest, version.ManifestsDigest)
	}
	if err != nil {
		return nil, err
	}
	rev.unmanaged = union(version.UnmanagedCRDs, world.cluster.Spec.UnmanagedCRDs)
	rev.returning = returning(world.cluster.Status.Versions, rev.unmanaged)
	rev.scope = scopeOf(version, world.cluster.Status)
	return rev, nil
}
