// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func TestTeardown_DeletesTheObjectThatWasRead(t *testing.T) {
	eachOwnership(t, func(b *env) {
		revision := b.revision(1, b.owner("owner"), nil, phase("main", b.configMap("settings", "red")))
		b.install(revision)
		before := b.get(b.configMap("settings", ""))
		b.requests.take()
		b.teardown(revision)
		requests := slices.DeleteFunc(b.requests.take(), func(r request) bool { return r.verb != "delete" })
		if len(requests) != 1 {
			b.Fatalf("%d delete requests", len(requests))
		}
		var options metav1.DeleteOptions
		b.must(json.Unmarshal([]byte(requests[0].body), &options))
		if options.Preconditions == nil || *options.Preconditions.UID != before.GetUID() || *options.Preconditions.ResourceVersion != before.GetResourceVersion() {
			b.Errorf("preconditions: %+v", options.Preconditions)
		}
	})
}

// A teardown that acts on an outdated object must not delete the current one.
func TestTeardown_KeepsObjectWithNewOwner(t *testing.T) {
	for name, change := range map[string]func(b *env, two client.Object){
		"handed over": func(b *env, two client.Object) {
			b.install(b.revision(2, two, nil, phase("main", b.configMap("settings", "blue"))), boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionNone))
		},
		"replaced": func(b *env, _ client.Object) {
			b.delete(b.configMap("settings", ""))
			b.create(b.configMap("settings", "blue"))
		},
		"edited": func(b *env, _ client.Object) {
			b.edit(b.configMap("settings", ""), `{"metadata":{"annotations":{"test.example.com/owners":"[]"}}}`)
		},
	} {
		for _, unfiltered := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, unfiltered reader %t", name, unfiltered), func(t *testing.T) {
				b := newEnv(t, envOptions{ownership: annotation})
				first := b.revision(1, b.owner("one"), nil, phase("main", b.configMap("settings", "red")))
				b.install(first)
				b.options.Reader = frozen{Reader: b.cache, object: b.get(b.configMap("settings", ""))}
				change(b, b.owner("two"))
				if !unfiltered {
					b.options.UnfilteredReader = nil
				}
				b.restart()
				result, err := b.engine.Teardown(t.Context(), first)
				switch {
				case !unfiltered && !apierrors.IsConflict(err):
					t.Errorf("got %v, want a conflict", err)
				case unfiltered && (err != nil || !result.IsComplete()):
					t.Errorf("got %v, want the object to be released\n%s", err, result)
				}
				if got := b.get(b.configMap("settings", "")); got == nil || got.GetDeletionTimestamp() != nil {
					t.Error("the object was deleted")
				}
			})
		}
	}
}

func TestTeardown_OrphanRemovesMetadata(t *testing.T) {
	eachOwnership(t, func(b *env) {
		owner := b.owner("owner")
		settings := b.configMap("settings", "red")
		settings.SetLabels(map[string]string{"app": "web"})
		settings.SetAnnotations(map[string]string{"note": "kept"})
		revision := b.revision(1, owner, nil, phase("main", settings))
		b.install(revision)
		result := b.teardown(revision, types.WithOrphan())
		if !result.IsComplete() {
			b.Errorf("the teardown is not complete:\n%s", result)
		}
		b.isOrphan(settings, owner)
		b.catchUp(revision)
		if result := b.teardown(revision, types.WithOrphan()); !result.IsComplete() {
			b.Errorf("the second teardown is not complete:\n%s", result)
		}
		// The object can be adopted again.
		b.expectActions(b.reconcile(revision), machinery.ActionCollision)
		b.expectActions(b.reconcile(revision, boxcutter.WithCollisionProtection(boxcutter.CollisionProtectionIfNoController)), machinery.ActionUpdated)
	})
}

func (b *env) isOrphan(settings *unstructured.Unstructured, owner client.Object) {
	b.Helper()
	got := b.get(settings)
	if got == nil || got.GetDeletionTimestamp() != nil {
		b.Fatal("the object was deleted")
	}
	if diff := cmp.Diff(map[string]string{"app": "web"}, got.GetLabels()); diff != "" {
		b.Errorf("labels (-want +got):\n%s", diff)
	}
	annotations := got.GetAnnotations()
	if annotations["note"] != "kept" || annotations[revisionMark] != "" || owner != nil && isOwner(owner, got) {
		b.Errorf("remaining label or annotations: %v", got.Object["metadata"])
	}
}
