// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"pkg.package-operator.run/boxcutter"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Cost is a situation of one object, and the requests of an engine in it.
type Cost struct {
	// Situation names it, such as "a changed object".
	Situation string
	// Requests are the dry runs and the writes, such as "1 + 2". Reads are not counted: programs read from a cache.
	Requests string
}

// costs are the situations: each prepares its objects, and returns the action to measure.
var costs = []struct {
	situation string
	prepare   func(e *Env) func()
}{
	{"a new object", func(e *Env) func() {
		rev := e.revision(1, e.owner("one"), phase("main", e.configMap("c", "red")))
		return func() { e.reconcile(rev) }
	}},
	{"an unchanged object", func(e *Env) func() {
		rev, _ := e.installed(e.configMap("c", "red"))
		return func() { e.reconcile(rev) }
	}},
	{"an unchanged Deployment with a value in another form", func(e *Env) func() {
		rev, _ := e.installed(e.deployment("d"))
		return func() { e.reconcile(rev) }
	}},
	{"a changed object of the same revision", func(e *Env) func() {
		_, owner := e.installed(e.configMap("c", "red"))
		rev := e.revision(1, owner, phase("main", e.configMap("c", "blue")))
		return func() { e.reconcile(rev) }
	}},
	{"an object changed by another actor", func(e *Env) func() {
		rev, _ := e.installed(e.configMap("c", "red"))
		e.edit(e.configMap("c", ""), `{"data":{"color":"green"}}`)
		return func() { e.reconcile(rev) }
	}},
	{"a deleted object", func(e *Env) func() {
		rev, _ := e.installed(e.configMap("c", "red"))
		e.must(e.user.Delete(e.Context(), e.configMap("c", "")))
		return func() { e.reconcile(rev) }
	}},
	{"a changed object of the next revision", func(e *Env) func() {
		rev, previous := e.next("blue")
		return func() { e.reconcile(rev, previous) }
	}},
	{"an unchanged object of the next revision", func(e *Env) func() {
		rev, previous := e.next("red")
		return func() { e.reconcile(rev, previous) }
	}},
	{"an existing object to adopt", func(e *Env) func() {
		e.create(e.configMap("c", "red"))
		rev := e.revision(1, e.owner("one"), phase("main", e.configMap("c", "blue")))
		return func() { e.reconcile(rev, boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionNone)) }
	}},
	{"a collision", func(e *Env) func() {
		e.create(e.configMap("c", "red"))
		rev := e.revision(1, e.owner("one"), phase("main", e.configMap("c", "blue")))
		return func() { e.reconcile(rev) }
	}},
	{"a changed object while paused", func(e *Env) func() {
		rev, previous := e.next("blue")
		return func() { e.reconcile(rev, previous, boxcutter.WithPaused{}) }
	}},
	{"a new object while paused", func(e *Env) func() {
		rev := e.revision(1, e.owner("one"), phase("main", e.configMap("c", "red")))
		return func() { e.reconcile(rev, boxcutter.WithPaused{}) }
	}},
	{"the teardown of an object", func(e *Env) func() {
		rev, _ := e.installed(e.configMap("c", "red"))
		return func() { e.teardown(rev) }
	}},
	{"the teardown of an absent object", func(e *Env) func() {
		rev, _ := e.installed(e.configMap("c", "red"))
		e.must(e.user.Delete(e.Context(), e.configMap("c", "")))
		return func() { e.teardown(rev) }
	}},
	{"the teardown of an object of the next revision", func(e *Env) func() {
		rev, owner := e.installed(e.configMap("c", "red"))
		next := e.revision(2, e.owner("two"), phase("main", e.configMap("c", "red")))
		e.reconcile(next, boxcutter.WithSiblingOwners([]client.Object{owner}))
		return func() { e.teardown(rev) }
	}},
}

// Costs measures the requests in each situation.
func Costs(t *testing.T, config *rest.Config, factory Factory) []Cost {
	t.Helper()
	var out []Cost
	for _, cost := range costs {
		e := newEnv(t, config, factory)
		action := cost.prepare(e)
		e.writes.take()
		action()
		dryRuns := e.writes.dryRuns
		out = append(out, Cost{cost.situation, fmt.Sprintf("%d + %d", dryRuns, len(e.writes.take()))})
	}
	return out
}

// installed installs an object, and returns its revision and owner.
func (e *Env) installed(object *unstructured.Unstructured) (boxcutter.Revision, client.Object) {
	e.Helper()
	owner := e.owner("one")
	rev := e.revision(1, owner, phase("main", object))
	e.reconcile(rev)
	e.reconcile(rev) // the first one may leave a write
	return rev, owner
}

// next installs a ConfigMap, and returns the next revision, in which it has a color, with the option that names the owner of the first one.
func (e *Env) next(color string) (boxcutter.Revision, boxcutter.RevisionReconcileOption) {
	e.Helper()
	_, owner := e.installed(e.configMap("c", "red"))
	return e.revision(2, e.owner("two"), phase("main", e.configMap("c", color))), boxcutter.WithSiblingOwners([]client.Object{owner})
}

// deployment returns a Deployment with a CPU request that the API server stores in another form.
func (e *Env) deployment(name string) *unstructured.Unstructured {
	labels := map[string]any{"app": name}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apps/v1", "kind": "Deployment",
		"metadata": map[string]any{"name": name, "namespace": e.namespace},
		"spec": map[string]any{
			"replicas": int64(0), "selector": map[string]any{"matchLabels": labels},
			"template": map[string]any{"metadata": map[string]any{"labels": labels}, "spec": map[string]any{"containers": []any{map[string]any{
				"name": "main", "image": "registry.example.com/main", "resources": map[string]any{"requests": map[string]any{"cpu": "1000m"}},
			}}}},
		},
	}}
}
