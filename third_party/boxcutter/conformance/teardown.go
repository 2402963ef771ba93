// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func teardownCases() []Case {
	return []Case{
		{"teardown/phases-in-reverse", teardownPhases},
		{"teardown/objects-in-order", teardownOrder},
		{"teardown/finalizer-waits", teardownFinalizer},
		{"teardown/lower-number-deletes", teardownLowerNumber},
		{"teardown/ownerless-other-number", teardownOwnerless},
		{"teardown/release-uses-engine-writer", teardownRelease},
		{"teardown/writer-deletes", teardownWriter},
		{"teardown/orphan-stays", teardownOrphan},
		{"teardown/absent-is-gone", teardownAbsent},
	}
}

func ownerRefs(objects ...client.Object) (out []metav1.OwnerReference) {
	for _, object := range objects {
		out = append(out, metav1.OwnerReference{APIVersion: "v1", Kind: "ServiceAccount", Name: object.GetName(), UID: object.GetUID()})
	}
	return out
}

func (e *Env) threePhases() []boxcutter.Phase {
	return []boxcutter.Phase{
		phase("one", e.configMap("a", "red"), e.configMap("b", "red")), phase("two", e.configMap("c", "red")), phase("three", e.configMap("d", "red")),
	}
}

func teardownPhases(t *testing.T, e *Env) {
	rev := e.revision(1, e.owner("owner"), e.threePhases()...)
	e.reconcile(rev)
	result := e.teardown(rev)
	active, _ := result.GetActivePhaseName()
	if active != "three" || result.IsComplete() || !cmp.Equal(result.GetWaitingPhaseNames(), []string{"one", "two"}) {
		t.Errorf("active %s, waiting %v", active, result.GetWaitingPhaseNames())
	}
	e.eventually("the revision is gone", func() bool { result = e.teardown(rev); return result.IsComplete() })
	if diff := cmp.Diff([]string{"one", "two", "three"}, result.GetGonePhaseNames()); diff != "" {
		t.Errorf("gone phases (-want +got):\n%s", diff)
	}
}

func teardownOrder(t *testing.T, e *Env) {
	rev := e.revision(1, e.owner("owner"), e.threePhases()[0])
	e.reconcile(rev)
	e.writes.take()
	e.teardown(rev)
	var names []string
	for _, write := range e.writes.take() {
		names = append(names, write[strings.LastIndex(write, "/")+1:])
	}
	if diff := cmp.Diff([]string{"a", "b"}, names); diff != "" {
		t.Errorf("deleted (-want +got):\n%s", diff)
	}
}

func teardownFinalizer(t *testing.T, e *Env) {
	settings := e.configMap("settings", "red")
	rev := e.revision(1, e.owner("owner"), phase("main", settings))
	e.reconcile(rev)
	e.edit(settings, `{"metadata":{"finalizers":["example.com/wait"]}}`)
	for range 2 {
		if result := e.teardown(rev); result.IsComplete() || len(result.GetPhases()[0].Waiting()) != 1 {
			t.Errorf("not waiting:\n%s", result)
		}
	}
	e.edit(settings, `{"metadata":{"finalizers":null}}`)
	e.eventually("the revision is gone", func() bool { return e.teardown(rev).IsComplete() })
}

func teardownLowerNumber(t *testing.T, e *Env) {
	owner, settings := e.owner("owner"), e.configMap("settings", "red")
	e.reconcile(e.revision(2, owner, phase("main", settings)))
	e.eventually("the lower number is gone", func() bool { return e.teardown(e.revision(1, owner, phase("main", settings))).IsComplete() })
	if e.get(settings) != nil {
		t.Error("the object still exists")
	}
}

func teardownOwnerless(t *testing.T, e *Env) {
	settings := e.configMap("settings", "red")
	e.reconcile(e.revision(2, nil, phase("main", settings)))
	e.writes.take()
	if !e.teardown(e.revision(1, nil, phase("main", settings))).IsComplete() || len(e.writes.take()) > 0 || e.get(settings) == nil {
		t.Error("an object with another revision number was changed")
	}
}

func teardownRelease(t *testing.T, e *Env) {
	one, two, settings := e.owner("one"), e.owner("two"), e.configMap("settings", "red")
	first := e.revision(1, one, phase("main", settings))
	e.reconcile(first)
	e.reconcile(e.revision(2, two, phase("main", settings)), boxcutter.WithSiblingOwners([]client.Object{one}))
	e.writes.take()
	// The writer of the teardown is not recorded.
	if result := e.teardown(first, types.WithTeardownWriter(e.user)); !result.IsComplete() {
		t.Errorf("not complete:\n%s", result)
	}
	if written := e.writes.take(); len(written) != 1 {
		t.Errorf("the writer of the engine wrote %v, want one patch", written)
	}
	if actual := e.get(settings); actual == nil || !e.owners.IsController(two, actual) || strings.Contains(actual.GetAnnotations()[systemPrefix+"/owners"], string(one.GetUID())) {
		t.Errorf("owners are %v", actual)
	}
}

func teardownWriter(t *testing.T, e *Env) {
	settings := e.configMap("settings", "red")
	rev := e.revision(1, e.owner("owner"), phase("main", settings))
	e.reconcile(rev)
	e.writes.take()
	e.eventually("the revision is gone", func() bool { return e.teardown(rev, types.WithTeardownWriter(e.user)).IsComplete() })
	if written := e.writes.take(); len(written) > 0 || e.get(settings) != nil {
		t.Errorf("the writer of the engine wrote %v", written)
	}
}

func teardownOrphan(t *testing.T, e *Env) {
	settings := e.configMap("settings", "red")
	rev := e.revision(1, e.owner("owner"), phase("main", settings))
	e.reconcile(rev)
	result := e.teardown(rev, types.WithOrphan())
	if actual := e.get(settings); !result.IsComplete() || len(result.GetPhases()[0].Gone()) != 1 || actual == nil || actual.GetDeletionTimestamp() != nil {
		t.Errorf("not retained:\n%s", result)
	}
}

func teardownAbsent(t *testing.T, e *Env) {
	rev := e.revision(1, e.owner("owner"), e.threePhases()...)
	if result := e.teardown(rev); !result.IsComplete() || len(e.writes.take()) > 0 {
		t.Errorf("not complete without a write:\n%s", result)
	}
}
