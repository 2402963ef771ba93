// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/preflight"
	"github.com/capi-installer/capi-installer/install/reason"
)

// settled returns a ConfigMap whose data cannot change.
func settled(name, color string) *unstructured.Unstructured {
	out := settings(name, color)
	out.Object["immutable"] = true
	return out
}

// A version with an immutable field is judged again until its object is deleted. Then the current version does not create it again.
func TestPreflight_JudgedUntilNothingStopsIt(t *testing.T) {
	first, firstMap := storedVersion(t, "4.22.0-1", settled("a", "red"))
	second, secondMap := storedVersion(t, "4.22.0-2", settled("a", "blue"))
	s := stateOf([]v1alpha1.Version{first, second}, firstMap, secondMap)
	dryRuns := 0
	live := interceptor.NewClient(fake.NewClientBuilder().WithScheme(clusterScheme(t)).WithObjects(controlledBy(t, first.Name, settled("a", "red"))).Build(), interceptor.Funcs{
		Apply: func(context.Context, client.WithWatch, runtime.ApplyConfiguration, ...client.ApplyOption) error {
			dryRuns++
			return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "a", field.ErrorList{field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set")})
		},
	})
	r := reconcilerOf(t, live, live, watches{}).Applier
	r.Preflight = Preflight{Live: live, DryRuns: live}
	judge := func() attempt {
		t.Helper()
		v, err := s.load(second)
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.plans.of(v)
		if err != nil {
			t.Fatal(err)
		}
		a := attempt{plan: p, scope: rollout}
		if a.findings, err = r.preflight(t.Context(), s, a); err != nil {
			t.Fatal(err)
		}
		return a
	}
	current := func() int {
		t.Helper()
		v, err := s.load(first)
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.plans.of(v)
		if err != nil {
			t.Fatal(err)
		}
		return r.reserved(t.Context(), s, p).Len()
	}
	for range 2 {
		got := judge()
		if outcome := got.outcome(); outcome.Reason != reason.ObjectsRefused || !strings.Contains(outcome.Message, "kubectl delete configmap a") || got.complete() || got.phases() != nil {
			t.Fatalf("outcome %+v, complete: %t, phases %v", outcome, got.complete(), got.phases())
		}
	}
	if dryRuns != 2 || current() != 0 {
		t.Errorf("%d dry runs, want 2; %d objects are reserved", dryRuns, current())
	}
	if err := live.Delete(t.Context(), settled("a", "red")); err != nil {
		t.Fatal(err)
	}
	if got := judge(); preflight.Blocking(got.findings) != nil {
		t.Errorf("findings without the object: %v", got.findings)
	}
	if current() != 1 {
		t.Error("the current version would create the object again")
	}
	if err := live.Create(t.Context(), controlledBy(t, second.Name, settled("a", "blue"))); err != nil {
		t.Fatal(err)
	}
	if got := judge(); got.findings != nil || dryRuns != 2 || current() != 0 {
		t.Errorf("findings %v, %d dry runs and %d reserved objects after the version has begun", got.findings, dryRuns, current())
	}
}

// The objects of a version that has begun are maintained, also if another object has a finding.
func TestPreflight_OfAVersionThatHasBegun(t *testing.T) {
	version, configMap := storedVersion(t, "4.22.0-2", settings("theirs", "red"))
	s := stateOf([]v1alpha1.Version{{Name: "4.22.0-1", Revision: 1}, version}, configMap)
	live := fake.NewClientBuilder().WithScheme(clusterScheme(t)).WithObjects(settings("theirs", "green")).Build()
	r := reconcilerOf(t, live, live, watches{}).Applier
	r.Preflight = Preflight{Live: live, DryRuns: live}
	for state, want := range map[v1alpha1.PhaseState]int{v1alpha1.PhasePending: 1, v1alpha1.PhaseProgressing: 0, v1alpha1.PhaseComplete: 0} {
		s.Cluster.Status.Versions[1].Phases = []v1alpha1.Phase{{Name: "preflight", State: v1alpha1.PhaseComplete}, {Name: "core", State: state}}
		v, err := s.load(version)
		if err != nil {
			t.Fatal(err)
		}
		p, err := r.plans.of(v)
		if err != nil {
			t.Fatal(err)
		}
		if found, err := r.preflight(t.Context(), s, attempt{plan: p}); err != nil || len(found) != want {
			t.Errorf("phase %s: findings %v, want %d: %v", state, found, want, err)
		}
	}
}

// One message has all findings, each with its next step.
func TestOutcome_OfThePreflight(t *testing.T) {
	a := attempt{
		plan: plan{version: version{name: "4.22.0-2"}}, scope: rollout, risks: []v1alpha1.AcceptedRisk{{Name: v1alpha1.SkippedVersions, Release: "4.21.0"}},
		findings: []preflight.Finding{
			{Reason: reason.Collision, Message: "ConfigMap a (no owner)"}, {Reason: reason.Collision, Message: "ConfigMap b (no owner)"},
			{Reason: reason.RiskNotAccepted, Risk: v1alpha1.BreakingCRDChange, Message: "CustomResourceDefinition c: d"},
			{Reason: reason.RiskNotAccepted, Risk: v1alpha1.SkippedVersions, Message: "e", Accepted: true},
			{Message: "f"},
		},
	}
	got := a.outcome()
	for _, part := range []string{
		"objects already exist and are not managed by the installer: ConfigMap a (no owner), ConfigMap b (no owner)",
		"version 4.22.0-2 has risks: CustomResourceDefinition c: d; to accept: kubectl patch clusterapi cluster --type=merge -p '" +
			`{"spec":{"acceptedRisks":[{"name":"SkippedVersions","release":"4.21.0"},{"name":"BreakingCRDChange","release":"4.22.0"}]}}'`,
		reason.Of(reason.RiskNotAccepted).NextStep(),
	} {
		if !strings.Contains(got.Message, part) {
			t.Errorf("%q not found in %q", part, got.Message)
		}
	}
	if got.Reason != reason.Collision || a.complete() {
		t.Errorf("reason %s, complete: %t", got.Reason, a.complete())
	}
	a.findings = a.findings[3:]
	a.applied = true
	a.result.Phases = append(a.result.Phases, engine.Phase{Name: "core"})
	if got := a.outcome(); got.Reason != reason.RollingOut || !strings.HasSuffix(got.Message, "; accepted risk SkippedVersions: e; f") {
		t.Errorf("outcome of a version that nothing stops: %+v", got)
	}
}
