// SPDX-License-Identifier: Apache-2.0

package machinery_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func notFound(obj client.Object, key client.ObjectKey) error {
	return apierrors.NewNotFound(schema.GroupResource{Resource: obj.GetObjectKind().GroupVersionKind().Kind}, key.Name)
}

// options are short for the options of one call.
func options(opts ...types.ObjectReconcileOption) []types.ObjectReconcileOption { return opts }

// given creates a situation.
type given func(*testing.T, *cluster)

func absent(*testing.T, *cluster) {}

func foreign(t *testing.T, c *cluster) { c.create(t, configMap(t)) }

func controlled(t *testing.T, c *cluster) {
	other := configMap(t)
	other.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(owner("stranger"), corev1.SchemeGroupVersion.WithKind("Secret"))})
	c.create(t, other)
}

func installed(revision int64, opts ...types.ObjectReconcileOption) given {
	return func(t *testing.T, c *cluster) { c.reconcile(t, revision, configMap(t), opts...) }
}

// edited changes the object afterwards as another field manager.
func edited(before given, patch string) given {
	return func(t *testing.T, c *cluster) {
		before(t, c)
		c.edit(t, configMap(t), patch)
	}
}

func handedOver(t *testing.T, c *cluster) {
	c.reconcile(t, 1, configMap(t), one)
	c.reconcile(t, 2, configMap(t), two, siblingOf("one"))
}

// deleted deletes the object. It waits for a finalizer.
func deleted(t *testing.T, c *cluster) {
	c.reconcile(t, 1, configMap(t), one)
	c.edit(t, configMap(t), `{"metadata":{"finalizers":["example.com/wait"]}}`)
	must(t, c.Delete(t.Context(), configMap(t)))
}

const (
	drift      = `{"data":{"color":"blue"}}`
	loss       = `{"data":{"color":null}}`
	unreadable = `{"metadata":{"annotations":{"test.example.com/revision":"first"}}}`
	stolen     = `{"metadata":{"ownerReferences":[{"apiVersion":"v1","kind":"Secret","name":"stranger","uid":"uid-stranger","controller":true}]}}`
	tampered   = `{"metadata":{"annotations":{"test.example.com/revision":"99"}}}`
)

var (
	one, two       = ownedBy("one"), ownedBy("two")
	ifNoController = types.WithCollisionProtection(types.CollisionProtectionIfNoController)
	none           = types.WithCollisionProtection(types.CollisionProtectionNone)
)

// situations are the possible states of an object, with the actions.
var situations = map[string]struct {
	given    given
	revision int64
	options  []types.ObjectReconcileOption
	action   machinery.Action
	writes   []string
}{
	"an absent object is created":                           {absent, 1, options(one), machinery.ActionCreated, []string{"create"}},
	"an absent object is created without an owner":          {absent, 1, nil, machinery.ActionCreated, []string{"create"}},
	"a pause creates as a dry run":                          {absent, 1, options(one, types.WithPaused{}), machinery.ActionCreated, []string{"dry create"}},
	"our object in the desired state is not changed":        {installed(1, one), 1, options(one), machinery.ActionIdle, nil},
	"without an owner, our annotation marks our object":     {installed(1), 1, nil, machinery.ActionIdle, nil},
	"an external change is reverted":                        {edited(installed(1, one), drift), 1, options(one), machinery.ActionRecovered, []string{"force"}},
	"an externally removed field is restored":               {edited(installed(1, one), loss), 1, options(one), machinery.ActionUpdated, []string{"dry force", "migrate", "apply"}},
	"a pause only reports drift":                            {edited(installed(1, one), drift), 1, options(one, types.WithPaused{}), machinery.ActionRecovered, nil},
	"a higher number of the same owner updates":             {installed(1, one), 2, options(one), machinery.ActionUpdated, []string{"migrate", "apply"}},
	"a higher number without an owner updates":              {installed(1), 2, nil, machinery.ActionUpdated, []string{"migrate", "apply"}},
	"a lower number of the same owner updates":              {installed(2, one), 1, options(one), machinery.ActionUpdated, []string{"migrate", "apply"}},
	"a lower number without an owner updates":               {installed(2), 1, nil, machinery.ActionUpdated, []string{"migrate", "apply"}},
	"an externally written revision is reverted":            {edited(installed(1, one), tampered), 1, options(one), machinery.ActionRecovered, []string{"force"}},
	"an older sibling hands over":                           {installed(1, one), 2, options(two, siblingOf("one")), machinery.ActionUpdated, []string{"force"}},
	"a newer sibling keeps the object":                      {installed(2, two), 1, options(one, siblingOf("two")), machinery.ActionProgressed, nil},
	"a sibling of the same number collides":                 {installed(1, two), 1, options(one, siblingOf("two")), machinery.ActionCollision, nil},
	"another controller collides":                           {controlled, 1, options(one), machinery.ActionCollision, nil},
	"another controller collides while paused":              {controlled, 1, options(one, types.WithPaused{}), machinery.ActionCollision, nil},
	"another controller collides without an owner":          {controlled, 1, nil, machinery.ActionCollision, nil},
	"a marked object of another controller collides":        {edited(installed(1), stolen), 1, nil, machinery.ActionCollision, nil},
	"another controller collides unless protection is none": {controlled, 1, options(one, ifNoController), machinery.ActionCollision, nil},
	"without protection another controller is replaced":     {controlled, 1, options(one, none), machinery.ActionUpdated, []string{"force"}},
	"a collision takes precedence over a newer number":      {installed(2, two), 1, options(one), machinery.ActionCollision, nil},
	"an object without controller collides":                 {foreign, 1, options(one), machinery.ActionCollision, nil},
	"an unowned object collides without an owner":           {foreign, 1, nil, machinery.ActionCollision, nil},
	"an object without controller is adopted on request":    {foreign, 1, options(one, ifNoController), machinery.ActionUpdated, []string{"force"}},
	"an unowned object is adopted without an owner":         {foreign, 1, options(ifNoController), machinery.ActionUpdated, []string{"force"}},
	"an object marked by a revision is not adopted":         {installed(1), 1, options(one, ifNoController), machinery.ActionCollision, nil},
}

func TestReconcile_BySituation(t *testing.T) {
	for name, test := range situations {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			test.given(t, c)
			before := c.get(t, configMap(t))
			c.took()
			result := c.reconcile(t, test.revision, configMap(t), test.options...)
			if result.Action() != test.action {
				t.Errorf("action is %s, want %s", result.Action(), test.action)
			}
			equal(t, "writes", test.writes, c.took())
			if test.writes == nil {
				if diff := cmp.Diff(before, c.get(t, configMap(t))); diff != "" {
					t.Errorf("the object changed (-before +after):\n%s", diff)
				}
				return
			}
			if result.IsPaused() {
				return
			}
			if again := c.reconcile(t, test.revision, configMap(t), test.options...); again.Action() != machinery.ActionIdle {
				t.Errorf("the next action is %s, want an idle one", again.Action())
			}
			if writes := c.took(); writes != nil {
				t.Errorf("the next reconcile writes: %v", writes)
			}
		})
	}
}

// TestUnreadableRevision_IsErrorWithoutWrite: an object that may belong to any revision is neither reverted nor deleted.
func TestUnreadableRevision_IsErrorWithoutWrite(t *testing.T) {
	for name, option := range map[string][]ownerOption{"with an owner": {one}, "without an owner": nil} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			var reconcile []types.ObjectReconcileOption
			var teardown []types.ObjectTeardownOption
			for _, o := range option {
				reconcile, teardown = append(reconcile, o), append(teardown, o)
			}
			edited(installed(1, reconcile...), unreadable)(t, c)
			c.took()
			if result, err := c.engine().Reconcile(t.Context(), 1, configMap(t), reconcile...); err == nil {
				t.Errorf("reconcile: action %s", result.Action())
			}
			if isGone, err := c.engine().Teardown(t.Context(), 1, configMap(t), teardown...); err == nil || isGone {
				t.Errorf("teardown: gone %t, %v", isGone, err)
			}
			if writes := c.took(); writes != nil {
				t.Errorf("writes: %v", writes)
			}
		})
	}
}

func TestReconcile_MarksCreatedObjects(t *testing.T) {
	c := newCluster(t)
	desired := configMap(t)
	c.reconcile(t, 7, desired, ownedBy("one"))
	got := c.get(t, desired)
	if got.GetLabels()[managedBy] != "tests" || got.GetAnnotations()[revisionMark] != "7" || !owners.IsController(owner("one"), got) {
		t.Errorf("the object has no label and annotation: %v", got.Object["metadata"])
	}
	if diff := cmp.Diff(configMap(t), desired); diff != "" {
		t.Errorf("the desired object of the caller changed (-before +after):\n%s", diff)
	}
}

func TestReconcile_ObjectMissingInReader(t *testing.T) {
	t.Run("collision while paused", func(t *testing.T) {
		c := newCluster(t, configMap(t))
		result, err := c.engineReading(nothing{}, c.Client).Reconcile(t.Context(), 1, configMap(t), ownedBy("one"), types.WithPaused{})
		if err != nil || result.Action() != machinery.ActionCollision || !result.IsPaused() {
			t.Errorf("got %v, %v", result, err)
		}
	})
	t.Run("our own object", func(t *testing.T) {
		c := newCluster(t)
		c.reconcile(t, 1, configMap(t), ownedBy("one"))
		result, err := c.engineReading(nothing{}, c.Client).Reconcile(t.Context(), 1, configMap(t), ownedBy("one"))
		if err != nil || result.Action() != machinery.ActionIdle {
			t.Errorf("got %v, %v", result, err)
		}
	})
}

// lagging is a reader that returns an outdated object.
type lagging struct {
	client.Reader
	object *unstructured.Unstructured
}

func (l lagging) Get(_ context.Context, _ client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	l.object.DeepCopyInto(obj.(*unstructured.Unstructured))
	return nil
}

func TestReconcile_OutdatedReaderDoesNotRestoreOwners(t *testing.T) {
	c := newCluster(t)
	c.reconcile(t, 1, configMap(t), ownedBy("one"))
	old := lagging{object: c.get(t, configMap(t))}
	c.reconcile(t, 2, configMap(t), ownedBy("two"), siblingOf("one"))
	if _, err := c.engine().Teardown(t.Context(), 1, configMap(t), ownedBy("one")); err != nil {
		t.Fatal(err)
	}
	c.took()
	result, err := c.engineReading(old, c.Client).Reconcile(t.Context(), 2, configMap(t), ownedBy("two"), siblingOf("one"))
	if err != nil || result.Action() != machinery.ActionIdle || len(result.Object().GetOwnerReferences()) != 1 {
		t.Errorf("got %v, %v, owners %v", result, err, result.Object().GetOwnerReferences())
	}
}

func TestReconcile_NormalizedValuesAreNotWritten(t *testing.T) {
	c := newCluster(t)
	rewrite := func(ctx context.Context, server client.Client) *unstructured.Unstructured {
		stored := configMap(t)
		patch := client.RawPatch(apitypes.MergePatchType, []byte(`{"data":{"size":"3.0"}}`))
		must(t, server.Patch(ctx, stored, patch, client.FieldOwner(fieldOwner)))
		return stored
	}
	c.afterApply = func(ctx context.Context, server client.Client, obj runtime.ApplyConfiguration) error {
		obj.(runtime.Unstructured).SetUnstructuredContent(rewrite(ctx, server).Object)
		return nil
	}
	engine := c.engine()
	step := func(size string) machinery.Action {
		desired := configMap(t)
		desired.Object["data"].(map[string]any)["size"] = size
		result, err := engine.Reconcile(t.Context(), 1, desired, ownedBy("one"))
		must(t, err)
		return result.Action()
	}
	step("3")
	rewrite(t.Context(), c.Client)
	c.took()
	actions := []machinery.Action{step("3"), step("3"), step("3.00"), step("3.00")}
	want := []machinery.Action{machinery.ActionIdle, machinery.ActionIdle, machinery.ActionIdle, machinery.ActionIdle}
	equal(t, "actions", want, actions)
	equal(t, "writes, one dry run for each value", []string{"dry force", "dry force"}, c.took())
	c.edit(t, configMap(t), `{"data":{"size":"4"}}`)
	if action := step("3.00"); action != machinery.ActionRecovered {
		t.Errorf("action is %s, want the edit to be reverted", action)
	}
}

// A value that an admission plugin has replaced is written again once the plugin is gone and another actor has changed the object.
func TestReconcile_ReplacedValueIsRestored(t *testing.T) {
	c := newCluster(t)
	replace := func(ctx context.Context, server client.Client, obj runtime.ApplyConfiguration) error {
		stored := configMap(t)
		patch := client.RawPatch(apitypes.MergePatchType, []byte(`{"data":{"size":"9"}}`))
		if err := server.Patch(ctx, stored, patch, client.FieldOwner(fieldOwner)); err != nil {
			return err
		}
		obj.(runtime.Unstructured).SetUnstructuredContent(stored.Object)
		return nil
	}
	engine := c.engine()
	step := func() machinery.Action {
		result, err := engine.Reconcile(t.Context(), 1, configMap(t), ownedBy("one"))
		must(t, err)
		return result.Action()
	}
	step()
	c.afterApply = replace
	c.edit(t, configMap(t), `{"data":{"size":"5"}}`)
	if actions := []machinery.Action{step(), step()}; actions[0] != machinery.ActionRecovered || actions[1] != machinery.ActionIdle {
		t.Fatalf("actions are %v with the plugin", actions)
	}
	c.afterApply = nil
	c.edit(t, configMap(t), `{"data":{"other":"5"}}`)
	if action := step(); !slices.Contains([]machinery.Action{machinery.ActionUpdated, machinery.ActionRecovered}, action) {
		t.Errorf("action is %s without the plugin, want the value to be restored", action)
	}
}

func TestObjectEngine_MisuseIsError(t *testing.T) {
	c := newCluster(t)
	tests := map[string]func() error{
		"a revision number below 1": func() error {
			_, err := c.engine().Reconcile(t.Context(), 0, configMap(t))
			return err
		},
		"a teardown with a revision number below 1": func() error {
			_, err := c.engine().Teardown(t.Context(), 0, configMap(t))
			return err
		},
		"an owner without a strategy": func() error {
			_, err := c.engine().Reconcile(t.Context(), 1, configMap(t), types.WithOwner(owner("one"), nil))
			return err
		},
		"a teardown with an owner without a strategy": func() error {
			_, err := c.engine().Teardown(t.Context(), 1, configMap(t), types.WithOwner(owner("one"), nil))
			return err
		},
	}
	for name, call := range tests {
		t.Run(name, func(t *testing.T) {
			misuse, ok := errors.AsType[*machinery.MisuseError](call())
			if !ok || misuse.Object.Name != "settings" {
				t.Errorf("got %v", misuse)
			}
		})
	}
}

func TestReconcile_TypedObjectsAreNotApplied(t *testing.T) {
	c := newCluster(t)
	desired := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "settings", Namespace: "default"},
		Data:       map[string]string{"color": "red"},
	}
	for _, action := range []machinery.Action{machinery.ActionCreated, machinery.ActionIdle} {
		if result := c.reconcile(t, 1, desired); result.Action() != action {
			t.Errorf("action is %s, want %s", result.Action(), action)
		}
	}
	_, err := c.engine().Reconcile(t.Context(), 2, desired)
	if _, ok := errors.AsType[*machinery.UnsupportedApplyConfigurationError](err); !ok {
		t.Errorf("got %v", err)
	}
}

// orphaning returns the owner, deleted with propagation Orphan.
var orphaning = func() client.Object {
	out := owner("one")
	out.SetFinalizers([]string{metav1.FinalizerOrphanDependents})
	return out
}()

var teardowns = map[string]struct {
	given    given
	revision int64
	options  []types.ObjectTeardownOption
	gone     bool
	writes   []string
}{
	"an absent object is gone":                       {absent, 1, []types.ObjectTeardownOption{one}, true, nil},
	"an absent object is gone if orphaned":           {absent, 1, []types.ObjectTeardownOption{one, types.WithOrphan()}, true, nil},
	"our object is deleted":                          {installed(1, one), 1, []types.ObjectTeardownOption{one}, false, []string{"delete"}},
	"our object is deleted with any annotation":      {installed(1, one), 2, []types.ObjectTeardownOption{one}, false, []string{"delete"}},
	"our object is deleted without an owner":         {installed(1), 1, nil, false, []string{"delete"}},
	"another number without an owner is gone":        {installed(2), 1, nil, true, nil},
	"an unmarked object without an owner is gone":    {foreign, 1, nil, true, nil},
	"without an owner, that of a controller is gone": {edited(installed(1), stolen), 1, nil, true, nil},
	"a lower number of the same owner deletes":       {installed(2, one), 1, []types.ObjectTeardownOption{one}, false, []string{"delete"}},
	"the object of a sibling is released":            {handedOver, 1, []types.ObjectTeardownOption{one}, true, []string{"patch"}},
	"the object of another owner is not changed":     {installed(1, two), 1, []types.ObjectTeardownOption{one}, true, nil},
	"an orphan is retained":                          {installed(1, one), 1, []types.ObjectTeardownOption{one, types.WithOrphan()}, true, []string{"patch"}},
	"an orphan by the owner's finalizer is retained": {installed(1, one), 1, []types.ObjectTeardownOption{types.WithOwner(orphaning, owners)}, true, []string{"patch"}},
	"the object of another owner is not orphaned":    {installed(1, two), 1, []types.ObjectTeardownOption{one, types.WithOrphan()}, true, nil},
	"an object that is being deleted is waiting":     {deleted, 1, []types.ObjectTeardownOption{one}, false, nil},
}

func TestTeardown_BySituation(t *testing.T) {
	for name, test := range teardowns {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			test.given(t, c)
			c.took()
			gone, err := c.engine().Teardown(t.Context(), test.revision, configMap(t), test.options...)
			if err != nil || gone != test.gone {
				t.Errorf("gone: %t, want %t; error: %v", gone, test.gone, err)
			}
			equal(t, "writes", test.writes, c.took())
		})
	}
}

// A cache that has not seen the adoption by a revision must not make its teardown release
// the object, because the object would stay in the cluster.
func TestTeardown_OutdatedCacheReleasesNothing(t *testing.T) {
	c := newCluster(t)
	c.reconcile(t, 1, configMap(t), ownedBy("one"))
	old := lagging{object: c.get(t, configMap(t))}
	c.reconcile(t, 2, configMap(t), ownedBy("two"), siblingOf("one"))
	c.took()
	gone, err := c.engineReading(old, c.Client).Teardown(t.Context(), 2, configMap(t), ownedBy("two"))
	if diff := cmp.Diff([]string{"delete"}, c.took()); err != nil || gone || diff != "" {
		t.Errorf("gone: %t, error: %v; writes (-want +got):\n%s", gone, err, diff)
	}
}

// Each state of the cache from before the adoption makes the teardown read the object without the cache. A state from after the next
// adoption does not: the object is no longer the revision's.
func TestTeardown_CacheFromBeforeTheAdoption(t *testing.T) {
	for name, test := range map[string]struct {
		cached func(t *testing.T, c *cluster) client.Reader
		adopt  types.ObjectReconcileOption
	}{
		"the object is missing":             {func(*testing.T, *cluster) client.Reader { return nothing{} }, nil},
		"no revision has the object":        {foreignReader, types.WithCollisionProtection(types.CollisionProtectionIfNoController)},
		"a lower revision has the object":   {readerOf(1), siblingOf("one")},
		"another owner has the same number": {readerOf(2), types.WithCollisionProtection(types.CollisionProtectionNone)},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			cached := test.cached(t, c)
			adopt := []types.ObjectReconcileOption{ownedBy("two")}
			if test.adopt != nil {
				adopt = append(adopt, test.adopt)
			}
			if result := c.reconcile(t, 2, configMap(t), adopt...); result.Action() == machinery.ActionCollision {
				t.Fatal("the revision does not adopt the object")
			}
			c.took()
			gone, err := c.engineReading(cached, c.Client).Teardown(t.Context(), 2, configMap(t), ownedBy("two"))
			if diff := cmp.Diff([]string{"delete"}, c.took()); err != nil || gone || diff != "" {
				t.Errorf("gone: %t, error: %v; writes (-want +got):\n%s", gone, err, diff)
			}
		})
	}
	c := newCluster(t)
	c.reconcile(t, 3, configMap(t), ownedBy("three"))
	unread := &counting{Reader: c.Client}
	if gone, err := c.engineReading(c.Client, unread).Teardown(t.Context(), 2, configMap(t), ownedBy("two")); err != nil || !gone || unread.reads > 0 {
		t.Errorf("a higher revision has the object: gone %t, %d reads without the cache, error: %v", gone, unread.reads, err)
	}
}

// readerOf returns a cache that keeps the object as a revision of another owner has installed it.
func readerOf(revision int64) func(*testing.T, *cluster) client.Reader {
	return func(t *testing.T, c *cluster) client.Reader {
		t.Helper()
		c.reconcile(t, revision, configMap(t), ownedBy("one"))
		return lagging{object: c.get(t, configMap(t))}
	}
}

// foreignReader returns a cache that keeps an object that no revision has installed.
func foreignReader(t *testing.T, c *cluster) client.Reader {
	t.Helper()
	foreign(t, c)
	return lagging{object: c.get(t, configMap(t))}
}

// counting counts the reads.
type counting struct {
	client.Reader
	reads int
}

func (c *counting) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	c.reads++
	return c.Reader.Get(ctx, key, obj, opts...)
}

// An owner is removed only from the object as it was read: a list of owners from an older read would drop a newer controller.
func TestTeardown_ReleasePreconditions(t *testing.T) {
	for name, options := range map[string][]types.ObjectTeardownOption{
		"released": {ownedBy("one")},
		"orphaned": {ownedBy("one"), types.WithOrphan()},
	} {
		t.Run(name, func(t *testing.T) {
			c := newCluster(t)
			c.reconcile(t, 1, configMap(t), ownedBy("one"))
			if name == "released" {
				c.reconcile(t, 2, configMap(t), ownedBy("two"), siblingOf("one"))
			}
			old := lagging{object: c.get(t, configMap(t))}
			c.reconcile(t, 3, configMap(t), ownedBy("three"), siblingOf("one", "two"))
			before := c.get(t, configMap(t))
			if _, err := c.engineReading(old, nil).Teardown(t.Context(), 1, configMap(t), options...); !apierrors.IsConflict(err) {
				t.Errorf("got %v, want a conflict", err)
			}
			if diff := cmp.Diff(before.Object, c.get(t, configMap(t)).Object); diff != "" {
				t.Errorf("the object was written (-before +after):\n%s", diff)
			}
			if _, err := c.engineReading(old, c.Client).Teardown(t.Context(), 1, configMap(t), options...); err != nil {
				t.Fatal(err)
			}
			if controller := metav1.GetControllerOf(c.get(t, configMap(t))); controller == nil || controller.Name != "three" {
				t.Errorf("controller is %v, want three", controller)
			}
		})
	}
}
