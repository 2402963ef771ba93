// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"errors"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/ownerhandling"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/config"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// gone reports whether the garbage collector has deleted an object.
func (b *env) gone(object client.Object) bool { return b.get(object) == nil }

// collected waits until the garbage collector has processed a deleted owner, and has deleted the objects without other
// owners.
func (b *env) collected(owner client.Object) {
	b.Helper()
	witness := b.object(`{apiVersion: v1, kind: ConfigMap, metadata: {name: witness-of-%s}}`, owner.GetName())
	b.must(native.strategy.SetControllerReference(owner, witness))
	b.create(witness)
	b.must(b.user.Delete(b.Context(), owner, client.PropagationPolicy(metav1.DeletePropagationBackground)))
	b.eventually("the garbage collector deletes the objects of "+owner.GetName(), func() bool { return b.gone(witness) })
}

func TestNativeOwner_GarbageCollectorDeletesObjects(t *testing.T) {
	b := newEnv(t, envOptions{ownership: native})
	owner := b.owner("owner")
	one, two := b.configMap("one", "red"), b.secret("two")
	b.install(b.revision(1, owner, nil, phase("main", one, two)))
	refs := b.get(one).GetOwnerReferences()
	if len(refs) != 1 || refs[0].UID != owner.GetUID() || refs[0].Controller == nil || !*refs[0].Controller ||
		refs[0].BlockOwnerDeletion == nil || !*refs[0].BlockOwnerDeletion {
		t.Errorf("owner references: %v", refs)
	}
	b.must(b.user.Delete(t.Context(), owner))
	b.eventually("all objects are deleted with their owner", func() bool { return b.gone(one) && b.gone(two) })
}

func TestNativeOwner_GarbageCollectorKeepsHandedOver(t *testing.T) {
	b := newEnv(t, envOptions{ownership: native})
	older, newer := b.owner("older"), b.owner("newer")
	passed, dropped := b.configMap("passed", "red"), b.configMap("dropped", "red")
	b.install(b.revision(1, older, nil, phase("main", passed, dropped)))
	changed := b.configMap("passed", "blue")
	b.install(b.revision(2, newer, []client.Object{older}, phase("main", changed)))
	controller, found := native.strategy.GetController(b.get(passed))
	if !found || controller.UID != newer.GetUID() || len(b.get(passed).GetOwnerReferences()) != 2 {
		t.Errorf("owners: %v", b.get(passed).GetOwnerReferences())
	}
	b.collected(older)
	b.eventually("the object of only the older owner is deleted", func() bool { return b.gone(dropped) })
	if b.gone(passed) {
		t.Error("the object of the newer owner was deleted with the older one")
	}
	b.must(b.user.Delete(t.Context(), newer))
	b.eventually("the object is deleted with the newer owner", func() bool { return b.gone(passed) })
}

func TestAnnotationOwner_GarbageCollectorIgnoresIt(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	elsewhere := newEnv(t, envOptions{ownership: annotation})
	// Owners can be in another namespace, and can own cluster-scoped objects.
	owner := elsewhere.owner("owner")
	one, role := b.configMap("one", "red"), b.object(`{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRole, metadata: {name: %s}}`, b.namespace)
	revision := b.revision(1, owner, nil, phase("main", one, role))
	b.install(revision)
	if len(b.get(one).GetOwnerReferences()) > 0 || !annotation.strategy.IsController(owner, b.get(role)) {
		t.Errorf("metadata: %v", b.get(role).Object["metadata"])
	}
	elsewhere.collected(owner)
	if b.gone(one) || b.gone(role) {
		t.Error("objects are deleted with their owner")
	}
	b.eventually("the owner is torn down", func() bool { return b.teardown(revision).IsComplete() })
	if !b.gone(one) || !b.gone(role) {
		t.Error("objects still exist")
	}
}

func TestAnnotationOwner_MalformedIsErrorAndStays(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	one := b.configMap("one", "red")
	one.SetAnnotations(map[string]string{ownersMark: "{not a list"})
	_, err := b.engine.Reconcile(t.Context(), b.revision(1, b.owner("owner"), nil, phase("main", one)))
	if malformed := (*ownerhandling.MalformedAnnotationError)(nil); !errors.As(err, &malformed) {
		t.Errorf("got error %v", err)
	}
	// The same annotation, written by a user into an object of the revision.
	good := b.configMap("two", "red")
	revision := b.revision(1, b.owner("another"), nil, phase("main", good))
	b.install(revision)
	b.edit(good, `{"metadata":{"annotations":{"`+ownersMark+`":"{not a list"}}}`)
	result := b.reconcile(revision)
	b.expectActions(result, machinery.ActionCollision)
	if got := b.get(good).GetAnnotations()[ownersMark]; got != "{not a list" {
		t.Errorf("the annotation is %s", got)
	}
}

// calls records the names in the calls of a controller.
type calls struct {
	mu    sync.Mutex
	count map[string]int
	do    func(context.Context, reconcile.Request) error
}

func (c *calls) Reconcile(ctx context.Context, request reconcile.Request) (reconcile.Result, error) {
	c.mu.Lock()
	c.count[request.Name]++
	c.mu.Unlock()
	if c.do != nil {
		return reconcile.Result{}, c.do(ctx, request)
	}
	return reconcile.Result{}, nil
}

// manager starts a manager of the namespace, with one controller, until the test ends.
func (b *env) manager(c *calls, add func(*builder.Builder)) {
	b.Helper()
	mgr, err := manager.New(b.config, manager.Options{
		Logger: logr.Discard(), Scheme: scheme.Scheme, Metrics: server.Options{BindAddress: "0"},
		Controller: config.Controller{SkipNameValidation: new(true)},
		Cache:      cache.Options{DefaultNamespaces: map[string]cache.Config{b.namespace: {}}},
	})
	b.must(err)
	builder := builder.ControllerManagedBy(mgr).Named("owners").WithOptions(controller.Options{MaxConcurrentReconciles: 1})
	add(builder)
	b.must(builder.Complete(c))
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := mgr.Start(ctx); err != nil {
			b.Errorf("running the manager: %v", err)
		}
	})
	b.Cleanup(func() { cancel(); running.Wait() })
	if !mgr.GetCache().WaitForCacheSync(b.Context()) {
		b.Fatal("the manager's cache did not start")
	}
}
