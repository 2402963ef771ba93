// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/guard"
	"github.com/capi-installer/capi-installer/install/reason"
)

// settled returns a ConfigMap whose data cannot change.
func settled(name, color string) *unstructured.Unstructured {
	out := settings(name, color)
	out.Object["immutable"] = true
	return out
}

// planOf returns the plan of a version.
func planOf(t *testing.T, r *Applier, s state, version v1alpha1.Version) plan {
	t.Helper()
	v, err := s.load(version)
	if err != nil {
		t.Fatal(err)
	}
	p, err := r.plans.of(v)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// A version with an immutable field is judged again until its object is deleted. Then the current version does not create it again.
func TestPreflight_JudgedUntilNothingStopsIt(t *testing.T) {
	first, firstMap := storedVersion(t, "4.22.0-1", settled("a", "red"))
	second, secondMap := storedVersion(t, "4.22.0-2", settled("a", "blue"))
	s := stateOf([]v1alpha1.Version{first, second}, firstMap, secondMap)
	dryRuns := 0
	live := interceptor.NewClient(fake.NewClientBuilder().WithScheme(clusterScheme(t)).WithObjects(controlledBy(t, first.Name, settled("a", "red"))).Build(), interceptor.Funcs{
		Patch: func(ctx context.Context, live client.WithWatch, _ client.Object, _ client.Patch, _ ...client.PatchOption) error {
			dryRuns++
			if err := live.Get(ctx, client.ObjectKeyFromObject(settled("a", "red")), &corev1.ConfigMap{}); apierrors.IsNotFound(err) {
				return nil
			}
			return apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "a", field.ErrorList{field.Forbidden(field.NewPath("data"), "field is immutable when `immutable` is set")})
		},
	})
	r := reconcilerOf(t, live, live, watches{}).Applier
	r.Guards = guard.Guards{Live: live, Writer: live}
	judge := func() attempt {
		t.Helper()
		a := attempt{plan: planOf(t, &r, s, second), judged: judgement{version: second.Name}, scope: rollout}
		var err error
		if a.judged.findings, err = r.trial(s, a).findings(t.Context()); err != nil {
			t.Fatal(err)
		}
		r.deletions = r.deletions.with(second.Name, a.deletions())
		return a
	}
	reserved := func(of v1alpha1.Version) int {
		t.Helper()
		return r.deletions.reserved(s, of.Name).Len()
	}
	for range 2 {
		got := judge()
		if outcome := got.outcome(); outcome.Reason != reason.ObjectsRefused || !strings.Contains(outcome.Message, "kubectl delete configmap a") || got.complete() || got.phases() != nil {
			t.Fatalf("outcome %+v, complete: %t, phases %v", outcome, got.complete(), got.phases())
		}
	}
	if dryRuns != 2 || reserved(first) != 1 || reserved(second) != 0 {
		t.Errorf("%d dry runs, want 2; %d objects are reserved for the current version, %d for the desired one", dryRuns, reserved(first), reserved(second))
	}
	if err := live.Delete(t.Context(), settled("a", "red")); err != nil {
		t.Fatal(err)
	}
	if got := judge(); got.judged.blocking() != nil {
		t.Errorf("findings without the object: %v", got.judged.findings)
	}
	if reserved(first) != 1 {
		t.Error("the current version would create the object again")
	}
	if err := live.Create(t.Context(), controlledBy(t, second.Name, settled("a", "blue"))); err != nil {
		t.Fatal(err)
	}
	if got := judge(); got.judged.findings != nil || dryRuns != 3 {
		t.Errorf("findings %v and %d dry runs after the version has begun", got.judged.findings, dryRuns)
	}
}

// The objects of a version that has begun are maintained, also if another object has a finding.
func TestPreflight_OfAVersionThatHasBegun(t *testing.T) {
	version, configMap := storedVersion(t, "4.22.0-2", settings("theirs", "red"))
	s := stateOf([]v1alpha1.Version{{Name: "4.22.0-1", Revision: 1}, version}, configMap)
	live := fake.NewClientBuilder().WithScheme(clusterScheme(t)).WithObjects(settings("theirs", "green")).Build()
	r := reconcilerOf(t, live, live, watches{}).Applier
	r.Guards = guard.Guards{Live: live, Writer: live}
	for state, want := range map[v1alpha1.PhaseState]int{v1alpha1.PhasePending: 1, v1alpha1.PhaseProgressing: 0, v1alpha1.PhaseComplete: 0} {
		r.passed = passed{} // as after a start
		s.Cluster.Status.Versions[1].Phases = []v1alpha1.Phase{{Name: "preflight", State: v1alpha1.PhaseComplete}, {Name: "core", State: state}}
		p := planOf(t, &r, s, version)
		if found, err := r.trial(s, attempt{plan: p}).findings(t.Context()); err != nil || len(found) != want {
			t.Errorf("phase %s: findings %v, want %d: %v", state, found, want, err)
		}
	}
}

// The note about the way back follows from the versions: a process that starts during a rollout has it too, without a request.
func TestPreflight_NotesOfAVersionThatHasBegun(t *testing.T) {
	next := machines()
	versions := []any{map[string]any{"name": "v1", "served": true, "storage": false}, map[string]any{"name": "v2", "served": true, "storage": true}}
	if err := unstructured.SetNestedSlice(next.Object, versions, "spec", "versions"); err != nil {
		t.Fatal(err)
	}
	first, firstMap := storedVersion(t, "4.22.0-1", machines(), settings("a", "red"))
	second, secondMap := storedVersion(t, "4.22.0-2", next, settings("a", "blue"))
	s := stateOf([]v1alpha1.Version{first, second}, firstMap, secondMap)
	s.Cluster.Status.Versions[1].Phases = []v1alpha1.Phase{{Name: "core-crds", State: v1alpha1.PhaseComplete}}
	r := reconcilerOf(t, fake.NewClientBuilder().Build(), fake.NewClientBuilder().Build(), watches{}).Applier
	r.Guards.Live = fake.NewClientBuilder().Build() // a read would fail: its cluster is empty
	p := planOf(t, &r, s, second)
	found, err := r.trial(s, attempt{plan: p}).findings(t.Context())
	if err != nil || len(found) != 1 || found[0].Blocks() || !strings.Contains(found[0].Message, "1 CRD(s) switch to v2, which the installed release lacks") {
		t.Errorf("findings %+v, want the note about the way back: %v", found, err)
	}
}

// Missing permissions and the findings about objects are in one message. Nothing is read from the cache, which cannot watch the kinds.
func TestPreflight_BesideMissingPermissions(t *testing.T) {
	version, configMap := storedVersion(t, "4.22.0-1", settings("theirs", "red"))
	s := stateOf([]v1alpha1.Version{version}, configMap)
	s.Cluster.Status.CurrentVersion = ""
	live := fake.NewClientBuilder().WithScheme(clusterScheme(t)).WithObjects(settings("theirs", "green")).Build()
	unreadable := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
		return errors.New("read from the cache")
	}}).Build()
	for name, test := range map[string]struct {
		begun bool
		want  string
	}{"a new version": {want: "; objects already exist and are not managed by the installer (no owner: ConfigMap theirs)"}, "a version that has begun": {begun: true}} {
		t.Run(name, func(t *testing.T) {
			r := reconcilerOf(t, unreadable, live, watches{}).Applier
			r.Guards = guard.Guards{Live: live, Writer: live}
			s.Cluster.Status.Versions[0].Phases = nil
			if test.begun {
				s.Cluster.Status.Versions[0].Phases = []v1alpha1.Phase{{Name: "core", State: v1alpha1.PhaseComplete}}
			}
			a := attempt{plan: planOf(t, &r, s, version), scope: rollout, err: &permissionsError{version: version.Name, namespace: s.namespaces.Operator}}
			got := r.unpermitted(t.Context(), s, a).outcome()
			if got.Reason != reason.ObjectsForbidden || !strings.Contains(got.Err.Error(), "is forbidden") || strings.Contains(got.Err.Error(), "objects already exist") != (test.want != "") || !strings.Contains(got.Err.Error(), test.want) {
				t.Errorf("outcome %+v, want the missing permissions and %q", got, test.want)
			}
		})
	}
}

// One message has all findings, each with its next step.
func TestOutcome_OfThePreflight(t *testing.T) {
	a := attempt{
		plan: plan{version: version{name: "4.22.0-2"}}, scope: rollout,
		judged: judgement{"4.22.0-2", []guard.Finding{
			{Reason: reason.Collision, Message: "objects already exist"},
			{Reason: reason.RiskNotAccepted, Risk: v1alpha1.BreakingCRDChange, Message: "CustomResourceDefinition c: d"},
			{Reason: reason.RiskNotAccepted, Risk: v1alpha1.SkippedVersions, Message: "e", Accepted: true},
			{Message: "f"},
		}, []v1alpha1.AcceptedRisk{{Name: v1alpha1.SkippedVersions, Release: "4.21.0"}}},
	}
	got := a.outcome()
	for _, part := range []string{
		"objects already exist",
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
	a.judged.findings = a.judged.findings[2:]
	a.applied = true
	a.result.Phases = append(a.result.Phases, engine.Phase{Name: "core"})
	if got := a.outcome(); got.Reason != reason.RollingOut || !strings.HasSuffix(got.Message, "; accepted risk SkippedVersions: e; f") {
		t.Errorf("outcome of a version that nothing stops: %+v", got)
	}
	late, crashing := waiting("b", "not ready"), waiting("c", "not ready")
	late.Cause, crashing.Crashes = "pod b: Unschedulable", true
	a.result.Phases = []engine.Phase{phase("core", waiting("a", "not ready"), late)}
	if got := a.outcome(); got.Reason != reason.PodsNotReady || !strings.Contains(got.Message, "ConfigMap b: pod b: Unschedulable; accepted risk") {
		t.Errorf("outcome with pods that are not ready: %+v", got)
	}
	a.result.Phases = []engine.Phase{phase("core", late, crashing)}
	if got := a.outcome(); got.Reason != reason.PodsCrash || !strings.Contains(got.Message, "accepted risk SkippedVersions: e; f") {
		t.Errorf("outcome with pods that crash: %+v", got)
	}
}

// An object that the preflight has created in a dry run gets no second one in its phase, unless an attempt has failed since.
func TestPreflight_OneDryRunOfANewObject(t *testing.T) {
	var objects []*unstructured.Unstructured
	for _, name := range []string{"a", "b", "c"} {
		objects = append(objects, settings(name, "red"))
		objects[len(objects)-1].SetNamespace(v1alpha1.OpenShiftNamespaces.Operand)
	}
	version, configMap := storedVersion(t, "4.22.0-1", objects...)
	s := stateOf([]v1alpha1.Version{version}, configMap)
	s.Cluster.Status.CurrentVersion = ""
	var mutex sync.Mutex
	dryRuns, rejects := map[string]int{}, true
	mapper := testrestmapper.TestOnlyStaticRESTMapper(clusterScheme(t))
	live := interceptor.NewClient(fake.NewClientBuilder().WithScheme(clusterScheme(t)).WithRESTMapper(mapper).Build(), interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, _ client.Patch, _ ...client.PatchOption) error {
			mutex.Lock()
			defer mutex.Unlock()
			dryRuns[obj.GetName()]++
			return nil
		},
		Create: func(ctx context.Context, live client.WithWatch, obj client.Object, options ...client.CreateOption) error {
			if obj.GetName() != "a" && rejects {
				return apierrors.NewInternalError(errors.New("a webhook failed"))
			}
			return live.Create(ctx, obj, options...)
		},
	})
	r := reconcilerOf(t, live, live, watches{}).Applier
	r.Guards = guard.Guards{Cache: live, Live: live, Writer: live}
	v, err := s.load(version)
	if err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		rejects bool
		want    map[string]int
	}{{true, map[string]int{"a": 1, "b": 1, "c": 1}}, {false, map[string]int{"a": 1, "b": 1, "c": 2}}, {false, map[string]int{"a": 1, "b": 1, "c": 2}}} {
		rejects = test.rejects
		a := r.attempt(t.Context(), s, v, time.Time{}, time.Now())
		if diff := cmp.Diff(test.want, dryRuns); diff != "" || (a.err != nil) != test.rejects {
			t.Errorf("rejects: %t: error %v; dry runs (-want +got):\n%s", test.rejects, a.err, diff)
		}
	}
}
