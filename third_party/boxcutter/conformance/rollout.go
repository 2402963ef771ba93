// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func rolloutCases() []Case {
	return []Case{
		{"rollout/install-then-idle", rolloutInstall},
		{"rollout/phases-wait-for-probes", rolloutPhases},
		{"drift/recovered", driftRecovered},
		{"drift/updated", driftUpdated},
		{"drift/additions-ignored", driftAdditions},
		{"drift/keyed-lists", driftKeyedLists},
		{"drift/dropped-fields-removed", driftDropped},
		{"drift/recreated", driftRecreated},
	}
}

func rolloutInstall(t *testing.T, e *Env) {
	rev := e.revision(1, e.owner("owner"), phase("first", e.configMap("one", "red")), phase("second", e.configMap("two", "red")))
	result := e.reconcile(rev)
	if !result.IsComplete() || result.InTransition() || len(result.GetPhases()) != 2 {
		t.Errorf("not complete:\n%s", result)
	}
	one := e.get(e.configMap("one", ""))
	if one.GetAnnotations()[revisionMark] != "1" || one.GetLabels()["app.kubernetes.io/managed-by"] != e.namespace {
		t.Errorf("marks are %v, %v", one.GetLabels(), one.GetAnnotations())
	}
	e.reconcile(rev)
	e.writes.take()
	if result = e.reconcile(rev); !result.IsComplete() {
		t.Errorf("not complete:\n%s", result)
	}
	if written := e.writes.take(); len(written) > 0 {
		t.Errorf("a converged revision writes %v", written)
	}
}

func rolloutPhases(t *testing.T, e *Env) {
	ready := false
	probe := types.ProbeFunc(func(client.Object) types.ProbeResult {
		if ready {
			return types.ProbeResult{Status: types.ProbeStatusTrue}
		}
		return types.ProbeResult{Status: types.ProbeStatusFalse, Messages: []string{"not yet"}}
	})
	rev := e.revision(1, e.owner("owner"), phase("first", e.configMap("one", "red")), phase("second", e.configMap("two", "red")))
	option := boxcutter.WithProbe(boxcutter.ProgressProbeType, probe)
	result := e.reconcile(rev, option)
	if result.IsComplete() || !result.InTransition() || len(result.GetPhases()) != 1 || e.get(e.configMap("two", "")) != nil {
		t.Errorf("the second phase was started:\n%s", result)
	}
	ready = true
	if result = e.reconcile(rev, option); !result.IsComplete() {
		t.Errorf("not complete:\n%s", result)
	}
}

func driftRecovered(t *testing.T, e *Env) {
	settings := e.configMap("settings", "red")
	rev := e.revision(1, e.owner("owner"), phase("main", settings))
	e.reconcile(rev)
	e.edit(settings, `{"data":{"color":"blue"}}`)
	e.expect(e.reconcile(rev), machinery.ActionRecovered)
	if color, _, _ := unstructured.NestedString(e.get(settings).Object, "data", "color"); color != "red" {
		t.Errorf("color is %q", color)
	}
	e.expect(e.reconcile(rev), machinery.ActionIdle)
}

func driftUpdated(_ *testing.T, e *Env) {
	owner := e.owner("owner")
	e.reconcile(e.revision(1, owner, phase("main", e.configMap("settings", "red"))))
	e.expect(e.reconcile(e.revision(1, owner, phase("main", e.configMap("settings", "green")))), machinery.ActionUpdated)
}

func driftAdditions(_ *testing.T, e *Env) {
	settings := e.configMap("settings", "red")
	rev := e.revision(1, e.owner("owner"), phase("main", settings))
	e.reconcile(rev)
	e.edit(settings, `{"data":{"size":"9"},"metadata":{"labels":{"user":"me"}}}`)
	e.expect(e.reconcile(rev), machinery.ActionIdle)
}

func (e *Env) service() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "Service",
		"metadata": map[string]any{"name": "web", "namespace": e.namespace},
		"spec": map[string]any{
			"selector": map[string]any{"app": "web"},
			"ports":    []any{map[string]any{"name": "http", "port": int64(80), "protocol": "TCP"}},
		},
	}}
}

func driftKeyedLists(_ *testing.T, e *Env) {
	owner := e.owner("owner")
	e.reconcile(e.revision(1, owner, phase("main", e.service())))
	e.expect(e.reconcile(e.revision(1, owner, phase("main", e.service()))), machinery.ActionIdle)
	e.edit(e.service(), `{"spec":{"ports":[{"name":"http","port":80,"protocol":"TCP"},{"name":"extra","port":81,"protocol":"TCP"}]}}`)
	e.expect(e.reconcile(e.revision(1, owner, phase("main", e.service()))), machinery.ActionIdle)
}

func driftDropped(t *testing.T, e *Env) {
	owner := e.owner("owner")
	two := e.configMap("settings", "red")
	_ = unstructured.SetNestedField(two.Object, "9", "data", "size")
	e.reconcile(e.revision(1, owner, phase("main", two)))
	e.reconcile(e.revision(2, owner, phase("main", e.configMap("settings", "green"))))
	if _, found, _ := unstructured.NestedString(e.get(two).Object, "data", "size"); found {
		t.Error("the dropped field is still present")
	}
}

func driftRecreated(_ *testing.T, e *Env) {
	settings := e.configMap("settings", "red")
	rev := e.revision(1, e.owner("owner"), phase("main", settings))
	e.reconcile(rev)
	e.must(e.user.Delete(e.Context(), settings.DeepCopy()))
	e.expect(e.reconcile(rev), machinery.ActionCreated)
}

func handoverCases() []Case {
	return []Case{
		{"handover/lower-to-higher", handoverHigher},
		{"handover/progressed", handoverProgressed},
		{"handover/same-number-collides", handoverSameNumber},
		{"handover/same-owner-lower-number", handoverSameOwner},
		{"handover/ownerless-lower-number", handoverOwnerless},
		{"siblings/classifiers", siblingClassifiers},
	}
}

func handoverHigher(_ *testing.T, e *Env) {
	one, two := e.owner("one"), e.owner("two")
	e.reconcile(e.revision(1, one, phase("main", e.configMap("settings", "red"))))
	rev := e.revision(2, two, phase("main", e.configMap("settings", "green")))
	e.expect(e.reconcile(rev, boxcutter.WithSiblingOwners([]client.Object{one})), machinery.ActionUpdated)
	e.reconcile(rev, boxcutter.WithSiblingOwners([]client.Object{one})) // may drop the earlier owner
	e.expect(e.reconcile(rev, boxcutter.WithSiblingOwners([]client.Object{one})), machinery.ActionIdle)
}

func handoverProgressed(t *testing.T, e *Env) {
	one, two := e.owner("one"), e.owner("two")
	e.reconcile(e.revision(2, two, phase("main", e.configMap("settings", "green"))))
	e.writes.take()
	result := e.reconcile(e.revision(1, one, phase("main", e.configMap("settings", "red"))), boxcutter.WithSiblingOwners([]client.Object{two}))
	e.expect(result, machinery.ActionProgressed)
	if !result.HasProgressed() || result.InTransition() || len(e.writes.take()) > 0 {
		t.Errorf("not progressed without a write:\n%s", result)
	}
}

func handoverSameNumber(_ *testing.T, e *Env) {
	one, two := e.owner("one"), e.owner("two")
	e.reconcile(e.revision(1, one, phase("main", e.configMap("settings", "red"))))
	e.expect(e.reconcile(e.revision(1, two, phase("main", e.configMap("settings", "red"))), boxcutter.WithSiblingOwners([]client.Object{one})),
		machinery.ActionCollision)
}

func handoverSameOwner(_ *testing.T, e *Env) {
	owner := e.owner("owner")
	e.reconcile(e.revision(2, owner, phase("main", e.configMap("settings", "green"))))
	e.expect(e.reconcile(e.revision(1, owner, phase("main", e.configMap("settings", "red")))), machinery.ActionUpdated)
}

func handoverOwnerless(_ *testing.T, e *Env) {
	e.reconcile(e.revision(2, nil, phase("main", e.configMap("settings", "green"))))
	e.expect(e.reconcile(e.revision(1, nil, phase("main", e.configMap("settings", "red")))), machinery.ActionUpdated)
}

func siblingClassifiers(t *testing.T, e *Env) {
	one, two := e.owner("one"), e.owner("two")
	for name, option := range map[string]boxcutter.WithSiblingOwnerClassifier{
		"objects":    boxcutter.WithSiblingOwners([]client.Object{one}),
		"references": boxcutter.WithSiblingOwnerRefs(ownerRefs(one)),
	} {
		settings := e.configMap(name, "red")
		e.reconcile(e.revision(1, one, phase("main", settings)))
		e.expect(e.reconcile(e.revision(2, two, phase("main", settings)), option), machinery.ActionUpdated)
	}
	if boxcutter.WithSiblingOwners([]client.Object{one})(ownerRefs(two)[0]) {
		t.Error("another owner is classified as a sibling")
	}
}

func pauseCases() []Case {
	return []Case{
		{"pause/create", pauseCreate},
		{"pause/update", pauseUpdate},
	}
}

func pauseCreate(t *testing.T, e *Env) {
	settings := e.configMap("settings", "red")
	object := e.expect(e.reconcile(e.revision(1, e.owner("owner"), phase("main", settings)), boxcutter.WithPaused{}), machinery.ActionCreated)
	if !object.IsPaused() || object.IsComplete() || e.get(settings) != nil || len(e.writes.take()) > 0 {
		t.Errorf("written while paused:\n%s", object)
	}
}

func pauseUpdate(t *testing.T, e *Env) {
	settings := e.configMap("settings", "red")
	rev := e.revision(1, e.owner("owner"), phase("main", settings))
	e.reconcile(rev)
	e.edit(settings, `{"data":{"color":"blue"}}`)
	e.writes.take()
	object := e.expect(e.reconcile(rev, boxcutter.WithPaused{}), machinery.ActionRecovered)
	if color, _, _ := unstructured.NestedString(e.get(settings).Object, "data", "color"); color != "blue" || len(e.writes.take()) > 0 {
		t.Errorf("written while paused:\n%s", object)
	}
}
