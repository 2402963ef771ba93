// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// mixed are n objects of three kinds, in two phases.
func (b *env) mixed(n int) []boxcutter.Phase {
	var first, second []*unstructured.Unstructured
	for i := range n {
		name := fmt.Sprintf("object-%03d", i)
		switch i % 3 {
		case 0:
			first = append(first, b.configMap(name, "red"))
		case 1:
			first = append(first, b.object(`{apiVersion: v1, kind: Service, metadata: {name: %s}, spec: {selector: {app: web}, ports: [{port: 80}]}}`, name))
		default:
			second = append(second, b.object(`{apiVersion: v1, kind: Secret, metadata: {name: %s}, stringData: {}, data: {key: dmFsdWU=}}`, name))
		}
	}
	return []boxcutter.Phase{phase("first", first...), phase("second", second...)}
}

func TestRequestLog_CountsByVerb(t *testing.T) {
	b := newEnv(t, envOptions{ownership: ownerless})
	settings := b.configMap("settings", "red")
	b.requests.take()
	b.must(b.client.Create(t.Context(), settings.DeepCopy(), client.DryRunAll))
	b.must(b.client.Create(t.Context(), settings.DeepCopy()))
	b.must(b.client.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(settings.DeepCopy()), client.FieldOwner("user"), client.ForceOwnership))
	b.must(b.client.Patch(t.Context(), settings.DeepCopy(), client.RawPatch("application/merge-patch+json", []byte(`{}`))))
	b.must(b.client.Update(t.Context(), settings.DeepCopy()))
	b.read(b.client, settings)
	b.must(b.client.List(t.Context(), &corev1.ConfigMapList{}))
	b.read(b.client, b.object(`{apiVersion: v1, kind: Namespace, metadata: {name: default}}`))
	b.must(b.client.Delete(t.Context(), settings.DeepCopy()))
	b.expectRequests(map[string]int{
		"dry-run create": 1, "create": 1, "apply": 1, "patch": 1, "update": 1, "get": 2, "list": 1, "delete": 1,
	})
}

func TestReconcile_FirstInstallRequests(t *testing.T) {
	const objects = 30
	eachOwnership(t, func(b *env) {
		revision := b.revision(1, b.owner("owner"), nil, b.mixed(objects)...)
		b.requests.take()
		result := b.reconcile(revision)
		if !result.IsComplete() {
			b.Fatalf("the first step is not all:\n%s", result)
		}
		b.catchUp(revision)
		b.reconcile(revision)
		// The watch of a cache begins with the list.
		b.expectRequests(map[string]int{"dry-run apply": objects, "create": objects, "watch": 3})
	})
}

// costs checks the requests since they were taken last, discovery aside.
func (b *env) expectRequests(want map[string]int) {
	b.Helper()
	got := b.requests.verbs()
	if !maps.Equal(got, want) {
		b.Errorf("it costs %v, want %v", got, want)
	}
}

func TestReconcile_ConvergedSendsNoRequest(t *testing.T) {
	eachOwnership(t, func(b *env) {
		owner := b.owner("owner")
		first := b.revision(1, owner, nil, b.mixed(9)...)
		b.install(first)
		second := b.revision(2, b.owner("second"), siblings(owner), b.mixed(9)...)
		b.install(second)
		b.requests.take()
		for range 3 {
			b.reconcile(second)
		}
		b.expectRequests(map[string]int{})
		if b.ownership.strategy == nil {
			return // a lower number takes the objects back
		}
		b.reconcile(first) // The older revision has progressed.
		b.expectRequests(map[string]int{})
	})
}

func TestReconcile_PausedConvergedSendsNoRequest(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	revision := b.revision(1, b.owner("owner"), nil, b.mixed(3)...)
	b.install(revision)
	b.requests.take()
	if result := b.reconcile(revision, boxcutter.WithPaused{}); !result.IsComplete() {
		t.Errorf("it is not complete:\n%s", result)
	}
	b.expectRequests(map[string]int{})
}

func TestSchemas_ReadOnce(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	b.install(b.revision(1, b.owner("owner"), nil, b.mixed(9)...))
	read := map[string]int{}
	for _, request := range b.requests.take() {
		if request.verb == "discover" && request.path != "/openapi/v3" {
			read[request.path]++
		}
	}
	if slices.Max(slices.Collect(maps.Values(read))) > 1 || read["/openapi/v3/api/v1"] != 1 {
		t.Errorf("discovery was read %v", read)
	}
}

func TestReconcile_DriftWritesOneObject(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	revision := b.revision(1, b.owner("owner"), nil, b.mixed(9)...)
	b.install(revision)
	b.edit(b.configMap("object-000", ""), `{"data":{"color":"blue"}}`)
	b.requests.take()
	b.reconcile(revision)
	b.catchUp(revision)
	b.reconcile(revision)
	b.expectRequests(map[string]int{"dry-run apply": 1, "patch": 1, "apply": 1})
}
