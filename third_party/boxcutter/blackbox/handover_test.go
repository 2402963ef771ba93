// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"fmt"
	"slices"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter/machinery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func siblings(owners ...client.Object) []client.Object {
	return slices.DeleteFunc(owners, func(owner client.Object) bool { return owner == nil })
}

func color(object *unstructured.Unstructured) string {
	out, _, _ := unstructured.NestedString(object.Object, "data", "color")
	return out
}

// The drift repair of the older revision must not modify an object of the newer revision, even with an outdated cache.
func TestHandover_OldCacheDoesNotTakeBack(t *testing.T) {
	eachOwner(t, func(b *env) {
		one, two := b.owner("one"), b.owner("two")
		first := b.revision(1, one, siblings(two), phase("main", b.configMap("settings", "red")))
		second := b.revision(2, two, siblings(one), phase("main", b.configMap("settings", "blue")))
		b.install(first)
		b.edit(b.configMap("settings", ""), `{"data":{"color":"green"}}`)
		old := frozen{Reader: b.cache, object: b.get(b.configMap("settings", ""))}
		b.install(second)

		b.options.Reader = old
		b.restart()
		b.expectActions(b.reconcile(first), machinery.ActionProgressed)
		if result := b.teardown(first); !result.IsComplete() {
			b.Errorf("the older revision waits for an object that it has handed over:\n%s", result)
		}
		if got := b.get(b.configMap("settings", "")); got == nil || color(got) != "blue" || got.GetDeletionTimestamp() != nil {
			b.Errorf("the older revision changed the object: %v", got)
		}
	})
}

// frozen returns one object in an earlier state.
type frozen struct {
	client.Reader

	object *unstructured.Unstructured
}

func (f frozen) Get(_ context.Context, _ client.ObjectKey, out client.Object, _ ...client.GetOption) error {
	u, ok := out.(*unstructured.Unstructured)
	if !ok {
		return fmt.Errorf("unexpected type %T", out)
	}
	f.object.DeepCopyInto(u)
	return nil
}
