// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
)

const deploymentText = `
apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 1
  selector: {matchLabels: {app: web}}
  strategy: %s
  template:
    metadata: {labels: {app: web}}
    spec:
      containers:
      - {name: web, image: registry.example.com/web:1, resources: {limits: {cpu: 1000m}}, ports: [{containerPort: 80}]}
      %s
`

const (
	rolling  = `{type: RollingUpdate, rollingUpdate: {maxSurge: 2, maxUnavailable: 0}}`
	recreate = `{type: Recreate}`
	sidecar  = `- {name: side, image: registry.example.com/side:1}`
)

func (b *env) deployment(strategy, more string) *unstructured.Unstructured {
	b.Helper()
	return b.object(deploymentText, strategy, more)
}

func TestManagedFields_NextRevisionDropsCreatedFields(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	owner := b.owner("owner")
	settings := b.configMap("settings", "red")
	b.must(unstructured.SetNestedField(settings.Object, "3", "data", "size"))
	b.install(b.revision(1, owner, nil, phase("main", settings, b.deployment(rolling, sidecar))))
	b.edit(settings, `{"data":{"theirs":"stays"}}`)

	next := b.revision(2, owner, nil, phase("main", b.configMap("settings", "red"), b.deployment(rolling, "")))
	b.expectActions(b.reconcile(next), machinery.ActionUpdated, machinery.ActionUpdated)
	data, _, _ := unstructured.NestedStringMap(b.get(settings).Object, "data")
	equal(t, "data", map[string]string{"color": "red", "theirs": "stays"}, data)
	containers, _, _ := unstructured.NestedSlice(b.get(b.deployment(rolling, "")).Object, "spec", "template", "spec", "containers")
	if len(containers) != 1 {
		t.Errorf("containers: %v", containers)
	}
}

// The strategy is the usual case of a field that is invalid with the new value of another field, and must therefore be
// removed in the same write.
func TestManagedFields_RollingUpdateToRecreate(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	owner := b.owner("owner")
	b.install(b.revision(1, owner, nil, phase("main", b.deployment(rolling, ""))))
	next := b.revision(2, owner, nil, phase("main", b.deployment(recreate, "")))

	result := b.reconcile(next, boxcutter.WithPaused{})
	b.expectActions(result, machinery.ActionUpdated)
	result = b.reconcile(next)
	b.expectActions(result, machinery.ActionUpdated)
	b.catchUp(next)
	b.expectActions(b.reconcile(next), machinery.ActionIdle)
	strategy, _, _ := unstructured.NestedMap(b.get(b.deployment(recreate, "")).Object, "spec", "strategy")
	equal(t, "strategy", map[string]any{"type": "Recreate"}, strategy)
}

// The API server stores "1000m" as "1". A new engine does not know about the normalization: it makes a dry run, and neither
// writes nor reports a change. So does a paused engine: an administrator looks for changes of others with it.
func TestManagedFields_NewEngineDoesNotWriteNormalizedValue(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	deployment := b.deployment(rolling, "")
	revision := b.revision(1, b.owner("owner"), nil, phase("main", deployment))
	b.install(revision)
	b.eventually("the deployment is available", func() bool {
		replicas, _, _ := unstructured.NestedInt64(b.get(deployment).Object, "status", "availableReplicas")
		return replicas == 1
	})
	b.catchUp(revision)
	b.expectActions(b.reconcile(revision), machinery.ActionIdle)
	version := b.get(deployment).GetResourceVersion()

	for _, opts := range [][]boxcutter.RevisionReconcileOption{nil, {paused}} {
		b.restart()
		b.requests.take()
		b.expectActions(b.reconcile(revision, opts...), machinery.ActionIdle)
		sent := b.requests.writes()
		delete(sent, "dry-run apply")
		if len(sent) > 0 || b.get(deployment).GetResourceVersion() != version {
			t.Errorf("a new engine wrote %v, options %v", sent, opts)
		}
		b.expectActions(b.reconcile(revision), machinery.ActionIdle)
		if got := b.requests.verbs(); len(got) > 0 {
			t.Errorf("later reconciles sent %v", got)
		}
	}
	// A value that is missing is a change.
	b.edit(deployment, `{"spec":{"template":{"spec":{"containers":[{"name":"web","image":"registry.example.com/web:1","ports":[{"containerPort":80}]}]}}}}`)
	b.restart()
	b.expectActions(b.reconcile(revision, paused), machinery.ActionUpdated)
	b.expectActions(b.reconcile(revision), machinery.ActionUpdated)
	if containers, _, _ := unstructured.NestedSlice(b.get(deployment).Object, "spec", "template", "spec", "containers"); !strings.Contains(fmt.Sprint(containers), "cpu:1") {
		t.Errorf("containers after the change was reverted: %v", containers)
	}
}

func TestManagedFields_FirstApplyMigratesCreatedFields(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	owner := b.owner("owner")
	b.install(b.revision(1, owner, nil, phase("main", b.configMap("settings", "red"))))
	next := b.revision(2, owner, nil, phase("main", b.configMap("settings", "blue")))
	b.requests.take()
	b.install(next)
	want := map[string]int{"patch": 1, "apply": 1}
	equal(t, "writes", want, b.requests.writes())
	for _, entry := range b.get(b.configMap("settings", "")).GetManagedFields() {
		if entry.Operation != metav1.ManagedFieldsOperationApply || entry.Manager != fieldOwner {
			t.Errorf("fields of manager %s, operation %s", entry.Operation, entry.Manager)
		}
	}
	b.install(b.revision(3, owner, nil, phase("main", b.configMap("settings", "green"))))
	equal(t, "writes of the next revision", map[string]int{"apply": 1}, b.requests.writes())
}

// Defaults that the API server sets at creation belong to our field manager until the
// managed fields are migrated; the apply after that releases them.
func TestManagedFields_FirstApplyKeepsDefaults(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	owner := b.owner("owner")
	objects := func() []*unstructured.Unstructured {
		return []*unstructured.Unstructured{
			b.deployment(`{type: RollingUpdate}`, ""),
			b.object(`{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {type: NodePort, selector: {app: web}, ports: [{port: 80}]}}`),
			b.object(`{apiVersion: v1, kind: PersistentVolumeClaim, metadata: {name: web}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}`),
			b.object(`{apiVersion: batch/v1, kind: Job, metadata: {name: web}, spec: {suspend: true, template: {spec: {restartPolicy: Never, containers: [{name: web, image: registry.example.com/web:1}]}}}}`),
			b.object(`{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: web}, spec: {replicas: 0, serviceName: web, selector: {matchLabels: {app: db}},
				template: {metadata: {labels: {app: db}}, spec: {containers: [{name: web, image: registry.example.com/web:1}]}},
				volumeClaimTemplates: [{metadata: {name: data}, spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}}]}}`),
			b.object(`{apiVersion: networking.k8s.io/v1, kind: Ingress, metadata: {name: web}, spec: {defaultBackend: {service: {name: web, port: {number: 80}}}}}`),
			b.object(`{apiVersion: networking.k8s.io/v1, kind: NetworkPolicy, metadata: {name: web}, spec: {podSelector: {}, ingress: [{ports: [{port: 80}]}]}}`),
			b.object(`{apiVersion: policy/v1, kind: PodDisruptionBudget, metadata: {name: web}, spec: {maxUnavailable: 1, selector: {matchLabels: {app: web}}}}`),
		}
	}
	b.install(b.revision(1, owner, nil, phase("main", objects()...)))
	before := map[string]any{}
	for _, object := range objects() {
		before[object.GetKind()] = b.get(object).Object["spec"]
	}
	second := b.revision(2, owner, nil, phase("main", objects()...))
	b.install(second)
	for _, object := range objects() {
		if diff := cmp.Diff(before[object.GetKind()], b.get(object).Object["spec"]); diff != "" {
			t.Errorf("the spec of %s changed (-before +after):\n%s", object.GetKind(), diff)
		}
	}
	b.eventually("no more writes", func() bool {
		b.catchUp(second)
		b.requests.take()
		b.reconcile(second)
		return len(b.requests.verbs()) == 0
	})
}

// The status of a Deployment is written often, so that a cache is often outdated when its managed fields are migrated.
func TestManagedFields_RollingUpdateToRecreateOldCache(t *testing.T) {
	for _, unfiltered := range []bool{true, false} {
		t.Run(fmt.Sprintf("unfiltered reader %t", unfiltered), func(t *testing.T) {
			b := newEnv(t, envOptions{ownership: annotation})
			owner, deployment := b.owner("owner"), b.deployment(rolling, "")
			b.install(b.revision(1, owner, nil, phase("main", deployment)))
			b.options.Reader = frozen{Reader: b.cache, object: b.get(deployment)}
			b.edit(deployment, `{"metadata":{"labels":{"theirs":"new"}}}`)
			if !unfiltered {
				b.options.UnfilteredReader = nil
			}
			b.restart()
			result, err := b.engine.Reconcile(t.Context(), b.revision(2, owner, nil, phase("main", b.deployment(recreate, ""))))
			if !unfiltered {
				if !apierrors.IsConflict(err) {
					t.Errorf("got %v, want a conflict", err)
				}
				return
			}
			b.must(err)
			b.expectActions(result, machinery.ActionUpdated)
			got := b.get(deployment)
			if strategy, _, _ := unstructured.NestedString(got.Object, "spec", "strategy", "type"); strategy != "Recreate" || got.GetLabels()["theirs"] != "new" {
				t.Errorf("strategy %s, labels %v", strategy, got.GetLabels())
			}
		})
	}
}

// An object that was deleted, but is still in the cache, is created like one that never existed: with the same owners of
// its fields. An apply would create it too.
func TestManagedFields_DeletedObjectInOldCache(t *testing.T) {
	for _, unfiltered := range []bool{true, false} {
		t.Run(fmt.Sprintf("unfiltered reader %t", unfiltered), func(t *testing.T) {
			b := newEnv(t, envOptions{ownership: annotation})
			owner, settings := b.owner("owner"), b.configMap("settings", "red")
			b.install(b.revision(1, owner, nil, phase("main", settings)))
			want := b.get(settings).GetManagedFields()
			b.install(b.revision(2, owner, nil, phase("main", b.configMap("settings", "red")))) // its fields are applied from now on
			b.options.Reader = frozen{Reader: b.cache, object: b.get(settings)}
			b.must(b.user.Delete(t.Context(), b.configMap("settings", "")))
			if !unfiltered {
				b.options.UnfilteredReader = nil
			}
			b.restart()
			result, err := b.engine.Reconcile(t.Context(), b.revision(3, owner, nil, phase("main", b.configMap("settings", "red"))))
			created := b.get(settings)
			if !unfiltered {
				if !apierrors.IsConflict(err) || created != nil {
					t.Errorf("got %v and %v, want a conflict and no object", err, created)
				}
				return
			}
			b.must(err)
			b.expectActions(result, machinery.ActionCreated)
			if got := created.GetManagedFields(); len(got) != len(want) || got[0].Operation != want[0].Operation {
				t.Errorf("managed fields %v, want those of a create: %v", got, want)
			}
		})
	}
}

// equal fails the test unless two values are equal.
func equal(t *testing.T, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
