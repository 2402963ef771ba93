// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/util"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

var unstructuredResource = schema.GroupResource{Resource: "configmaps"}

func resultCases() []Case {
	return []Case{
		{"results/compare-result", resultCompare},
		{"results/text", resultText},
		{"results/object-ref", resultObjectRef},
		{"results/conflicting-owner", resultConflictingOwner},
		{"results/summary", resultSummary},
	}
}

func resultCompare(t *testing.T, e *Env) {
	settings := e.configMap("settings", "red")
	owner := e.owner("owner")
	rev := e.revision(1, owner, phase("main", settings))
	e.reconcile(rev)
	compared := func(result machinery.RevisionResult) machinery.CompareResult {
		object, ok := e.only(result).(interface {
			CompareResult() machinery.CompareResult
		})
		if !ok {
			t.Fatalf("%T has no CompareResult", e.only(result))
		}
		return object.CompareResult()
	}
	if got := compared(e.reconcile(rev)); got.IsConflict() || len(got.Modified()) > 0 {
		t.Errorf("an idle object differs: %s", got)
	}
	e.edit(settings, `{"data":{"color":"blue"}}`)
	if got := compared(e.reconcile(rev)); !got.IsConflict() {
		t.Errorf("a recovered object has no conflict: %s", got)
	}
	if got := compared(e.reconcile(e.revision(1, owner, phase("main", e.configMap("settings", "green"))))); len(got.Modified()) == 0 {
		t.Errorf("an updated object has no difference: %s", got)
	}
	compared(e.reconcile(e.revision(1, e.owner("stranger"), phase("main", settings))))
}

func resultText(t *testing.T, e *Env) {
	e.create(e.configMap("collides", "blue"))
	probe := types.ProbeFunc(func(client.Object) types.ProbeResult {
		return types.ProbeResult{Status: types.ProbeStatusFalse, Messages: []string{"not yet"}}
	})
	rev := e.revision(1, e.owner("owner"), phase("main", e.configMap("new", "red"), e.configMap("collides", "red")), phase("later"))
	text := e.reconcile(rev, boxcutter.WithProbe(boxcutter.ProgressProbeType, probe)).String()
	for _, want := range []string{
		"Complete: false", "In Transition: true", `Phase "main"`, "Object ConfigMap.v1 " + e.namespace + "/new", `Action: "Created"`,
		"Progress: Failed", "not yet", `Action: "Collision"`, "Conflicting Owner: nil", "Conflicts:", `Phase "later" (Pending)`,
	} {
		if !strings.Contains(text, want) {
			t.Errorf("missing %q in\n%s", want, text)
		}
	}
}

func resultObjectRef(t *testing.T, e *Env) {
	if got, want := types.ToObjectRef(e.configMap("n", "")).String(), "/v1, Kind=ConfigMap "+e.namespace+"/n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := types.ToObjectRef(nil); got != (types.ObjectRef{}) {
		t.Errorf("the reference of nil is %v", got)
	}
}

func resultConflictingOwner(t *testing.T, e *Env) {
	stranger := e.owner("stranger")
	e.reconcile(e.revision(1, stranger, phase("main", e.configMap("settings", "red"))))
	object := e.expect(e.reconcile(e.revision(1, e.owner("owner"), phase("main", e.configMap("settings", "red")))), machinery.ActionCollision)
	collision, ok := object.(machinery.ObjectResultCollision)
	if !ok {
		t.Fatalf("the result is a %T", object)
	}
	if ref, found := collision.ConflictingOwner(); !found || ref.UID != stranger.GetUID() || collision.Success() {
		t.Errorf("the conflicting owner is %v", ref)
	}
}

func resultSummary(t *testing.T, e *Env) {
	rev := e.revision(1, e.owner("owner"), phase("main", e.configMap("settings", "red")))
	if got := util.SummarizeRevisionResult(e.reconcile(rev)); !strings.Contains(got, "1 phase(s) successful") {
		t.Errorf("the summary is %q", got)
	}
	if got := util.SummarizeRevisionResult(nil); got != "" {
		t.Errorf("the summary of nil is %q", got)
	}
}

func optionCases() []Case {
	return []Case{
		{"options/last-one-wins", optionLast},
		{"options/precedence", optionPrecedence},
		{"options/owner-needs-uid", optionOwnerUID},
		{"options/one-call", optionOneCall},
		{"hashes/no-count", func(t *testing.T, _ *Env) {
			if one, two := util.ComputeSHA256Hash(map[string]int{"a": 1, "b": 2}, nil), util.ComputeSHA256Hash(map[string]int{"b": 2, "a": 1}, nil); one != two || len(one) != 64 {
				t.Errorf("hashes are %s and %s", one, two)
			}
		}},
	}
}

func optionLast(t *testing.T, e *Env) {
	settings := e.configMap("settings", "red")
	probe := boxcutter.WithProbe("Ready", types.ProbeFunc(func(client.Object) types.ProbeResult { return types.ProbeResult{} }))
	result := e.reconcile(e.revision(1, nil, phase("main", settings)),
		boxcutter.WithPhaseReconcileOptions("main", boxcutter.WithPaused{}),
		boxcutter.WithPhaseReconcileOptions("main", boxcutter.WithObjectReconcileOptions(settings, boxcutter.WithPaused{}),
			boxcutter.WithObjectReconcileOptions(settings, probe)))
	object := e.only(result)
	if _, probed := object.ProbeResults()["Ready"]; object.IsPaused() || !probed {
		t.Errorf("the last options do not win:\n%s", result)
	}
}

func optionPrecedence(t *testing.T, e *Env) {
	settings := e.configMap("settings", "red")
	named := func(message string) boxcutter.ObjectReconcileOption {
		return boxcutter.WithProbe("Ready", types.ProbeFunc(func(client.Object) types.ProbeResult {
			return types.ProbeResult{Status: types.ProbeStatusTrue, Messages: []string{message}}
		}))
	}
	got := func(rev boxcutter.Revision, opts ...boxcutter.RevisionReconcileOption) string {
		return e.only(e.reconcile(rev, opts...)).ProbeResults()["Ready"].Messages[0]
	}
	if message := got(e.revision(1, nil, phase("main", settings)), named("default"), boxcutter.WithPhaseReconcileOptions("main", named("phase"))); message != "phase" {
		t.Errorf("the option of the %s wins over that of the phase", message)
	}
	if message := got(e.revision(1, nil, phase("main", settings).WithReconcileOptions(boxcutter.WithObjectReconcileOptions(settings, named("object")))), named("default")); message != "object" {
		t.Errorf("the option of the %s wins over that of the object", message)
	}
	if message := got(e.revision(1, nil, phase("main", settings)).WithReconcileOptions(named("revision")), named("call")); message != "revision" {
		t.Errorf("the option of the %s wins over that of the revision", message)
	}
}

func optionOwnerUID(t *testing.T, e *Env) {
	defer func() {
		if recover() == nil {
			t.Error("an owner without a UID does not panic")
		}
	}()
	boxcutter.WithOwner(&corev1.ConfigMap{}, e.owners)
}

func optionOneCall(t *testing.T, e *Env) {
	one, two := e.owner("one"), e.owner("two")
	settings := e.configMap("settings", "red")
	e.reconcile(e.revision(1, one, phase("main", settings)))
	rev := boxcutter.NewRevision("two", 2, []boxcutter.Phase{phase("main", settings)}).
		WithReconcileOptions(boxcutter.WithOwner(two, e.owners), boxcutter.WithSiblingOwners([]client.Object{one}))
	e.expect(e.reconcile(rev), machinery.ActionUpdated)
	if !e.owners.IsController(two, e.get(settings)) {
		t.Error("options of one call do not all apply")
	}
}
