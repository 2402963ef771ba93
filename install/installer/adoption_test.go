// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"pkg.package-operator.run/boxcutter/machinery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// adoptableOutcome returns the result of an object with the adopt-existing annotation that a version controls.
func adoptableOutcome(t *testing.T, name, version string) objectOutcome {
	t.Helper()
	out := ready(name)
	out.object = controlledBy(t, version, out.object)
	annotations := out.object.GetAnnotations()
	annotations[v1alpha1.AdoptAnnotation] = v1alpha1.AdoptAlways
	out.object.SetAnnotations(annotations)
	return out
}

// Only an object that the version has adopted loses the annotation. The others may be adopted later.
func TestClearAdoptAnnotations_OfAdoptedObjects(t *testing.T) {
	collides, paused := adoptableOutcome(t, "collides", "4.22.0-1"), adoptableOutcome(t, "paused", "4.22.0-1")
	collides.action, paused.paused = machinery.ActionCollision, true
	outcomes := []objectOutcome{
		collides, paused, adoptableOutcome(t, "of-another-version", "4.22.0-2"), adoptableOutcome(t, "deleted", "4.22.0-1"),
		adoptableOutcome(t, "rejected", "4.22.0-1"), adoptableOutcome(t, "adopted", "4.22.0-1"),
	}
	cluster := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Patch: func(ctx context.Context, c client.WithWatch, o client.Object, patch client.Patch, options ...client.PatchOption) error {
			if o.GetName() == "rejected" {
				return apierrors.NewServiceUnavailable("down")
			}
			return c.Patch(ctx, o, patch, options...)
		},
	}).Build()
	var results []machinery.ObjectResult
	for _, outcome := range outcomes {
		results = append(results, outcome)
		if name := outcome.object.GetName(); name != "deleted" {
			if err := cluster.Create(t.Context(), outcome.object.DeepCopy()); err != nil {
				t.Fatal(err)
			}
		}
	}
	engine, rev := &Engine{Writer: cluster, Owners: owners}, &loadedRevision{name: "4.22.0-3", owner: "4.22.0-1"}
	if err := engine.clearAdoptAnnotations(t.Context(), rev, onePhase(results...)); !apierrors.IsServiceUnavailable(err) {
		t.Errorf("error is %v, want that of the rejected patch", err)
	}
	for name, want := range map[string]bool{"collides": true, "paused": true, "of-another-version": true, "rejected": true, "adopted": false} {
		object := settings(name, "red")
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
			t.Fatal(err)
		}
		if got := allowsAdoption(object); got != want {
			t.Errorf("%s has the annotation: %t, want %t", name, got, want)
		}
	}
}
