// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// machinesCRD returns a CRD. A version has the suffix "!" if it is the storage version, and "-" if it is not served.
func machinesCRD(versions ...string) *unstructured.Unstructured {
	var all []any
	for _, version := range versions {
		all = append(all, map[string]any{"name": strings.TrimRight(version, "!-"), "served": !strings.HasSuffix(version, "-"), "storage": strings.HasSuffix(version, "!")})
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "machines.x.io"},
		"spec": map[string]any{"group": "x.io", "names": map[string]any{"kind": "Machine", "plural": "machines"}, "versions": all},
	}}
}

// webhooksFor returns a webhook configuration for a version of an API group.
func webhooksFor(group, version string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration", "metadata": map[string]any{"name": "webhooks"},
		"webhooks": []any{map[string]any{"name": "a.x.io", "rules": []any{map[string]any{"apiGroups": []any{group}, "apiVersions": []any{version}}}}},
	}}
}

func TestHolder_Of(t *testing.T) {
	owned := func(o *unstructured.Unstructured, owner string) *unstructured.Unstructured {
		if err := NewOwners(scheme.Scheme, v1alpha1.OpenShiftNamespaces.Operator).Set(owner, o); err != nil {
			t.Fatal(err)
		}
		return o
	}
	mutating := func(o *unstructured.Unstructured) *unstructured.Unstructured {
		o.SetKind("MutatingWebhookConfiguration")
		return o
	}
	adoptable := machinesCRD("v1", "v2!")
	adoptable.SetAnnotations(map[string]string{v1alpha1.AdoptAnnotation: v1alpha1.AdoptAlways})
	instance := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "x.io/v2", "kind": "Machine", "metadata": map[string]any{"name": "own"}}}
	both := []string{"v1", "v2!"}
	for name, test := range map[string]struct {
		cached, live *unstructured.Unstructured // live is the cached object if it is nil
		desired      *unstructured.Unstructured
		part         []*unstructured.Unstructured // further objects of the component
		adopt        sets.Set[object.Identity]
		released     bool
		want         string
	}{
		"a storage version that the cluster lacks": {cached: machinesCRD("v1!"), desired: machinesCRD(both...), want: "v1, held"},
		"the same storage version":                 {cached: machinesCRD("v1", "v2!"), desired: machinesCRD(both...), want: "v2"},
		"an unserved storage version":              {cached: machinesCRD("v1!"), desired: machinesCRD("v1-", "v2!"), want: "v1, held"},
		"a CRD without the former storage version": {cached: machinesCRD("v1!"), desired: machinesCRD("v2!"), want: "v2"},
		"a new CRD":                                   {desired: machinesCRD(both...), want: "v2"},
		"a cache before the switch":                   {cached: machinesCRD("v1!", "v2"), live: machinesCRD(both...), desired: machinesCRD(both...), want: "v2"},
		"pods that are ready":                         {cached: machinesCRD("v1!"), desired: machinesCRD(both...), released: true, want: "v2"},
		"an instance in the component":                {cached: machinesCRD("v1!"), desired: machinesCRD(both...), part: []*unstructured.Unstructured{instance}, want: "v2"},
		"a CRD of another owner":                      {live: machinesCRD("v1!"), desired: machinesCRD(both...), want: "v2"},
		"a CRD that is adopted":                       {live: machinesCRD("v1!"), desired: machinesCRD(both...), adopt: sets.New(object.IdentityOf(machinesCRD())), want: "v1, held"},
		"a CRD that the manifest adopts":              {live: machinesCRD("v1!"), desired: adoptable, want: "v1, held"},
		"a CRD deleted after it was cached":           {cached: machinesCRD("v1!"), live: settings("other", ""), desired: machinesCRD(both...), want: "v2"},
		"mutating webhooks of an older version":       {cached: mutating(owned(webhooksFor("x.io", "v1"), "4.22.0-1")), desired: mutating(webhooksFor("x.io", "v2")), want: "omitted"},
		"webhooks for objects of Kubernetes":          {cached: owned(webhooksFor("", "v1"), "4.22.0-1"), desired: webhooksFor("", "v1"), part: []*unstructured.Unstructured{settings("a", "red")}, want: "omitted"},
		"webhooks of an older version":                {cached: owned(webhooksFor("x.io", "v1"), "4.22.0-1"), desired: webhooksFor("x.io", "v2"), want: "omitted"},
		"webhooks that the cache does not have yet":   {live: owned(webhooksFor("x.io", "v1"), "4.22.0-1"), desired: webhooksFor("x.io", "v2"), want: "omitted"},
		"webhooks of this version":                    {cached: owned(webhooksFor("x.io", "v2"), "4.22.0-2"), desired: webhooksFor("x.io", "v2"), want: "applied"},
		"new webhooks":                                {desired: webhooksFor("x.io", "v2"), want: "applied"},
		"webhooks, pods that are ready":               {cached: owned(webhooksFor("x.io", "v1"), "4.22.0-1"), desired: webhooksFor("x.io", "v2"), released: true, want: "applied"},
		"webhooks for a version that is served":       {cached: owned(webhooksFor("x.io", "v1"), "4.22.0-1"), desired: webhooksFor("x.io", "v2"), part: []*unstructured.Unstructured{machinesCRD(both...)}, want: "omitted"},
		"webhooks for a version that is not served":   {cached: owned(webhooksFor("x.io", "v1"), "4.22.0-1"), desired: webhooksFor("x.io", "v2"), part: []*unstructured.Unstructured{machinesCRD("v1-", "v2!")}, want: "applied"},
		"webhooks for a version of another component": {cached: owned(webhooksFor("y.io", "v1"), "4.22.0-1"), desired: webhooksFor("y.io", "v2"), part: []*unstructured.Unstructured{machinesCRD("v2!")}, want: "omitted"},
		"webhooks for all versions":                   {cached: owned(webhooksFor("x.io", "*"), "4.22.0-1"), desired: webhooksFor("x.io", "v2"), part: []*unstructured.Unstructured{machinesCRD("v2!")}, want: "omitted"},
		"a CRD that loses a version":                  {cached: machinesCRD("v1!", "v2"), desired: machinesCRD("v1!"), part: []*unstructured.Unstructured{webhooksFor("x.io", "v1")}, want: "omitted"},
		"a CRD that loses a version, ready pods":      {cached: machinesCRD("v1!", "v2"), desired: machinesCRD("v1!"), part: []*unstructured.Unstructured{webhooksFor("x.io", "v1")}, released: true, want: "v1"},
		"a CRD that loses an unserved version":        {cached: machinesCRD("v1!", "v2-"), desired: machinesCRD("v1!"), part: []*unstructured.Unstructured{webhooksFor("x.io", "v1")}, want: "v1"},
		"a CRD that loses a version, no webhooks":     {cached: machinesCRD("v1!", "v2"), desired: machinesCRD("v1!"), want: "v1"},
		"a CRD that loses a version, a new CRD":       {cached: machinesCRD("v1!", "v2"), desired: machinesCRD("v1!"), part: []*unstructured.Unstructured{webhooksFor("x.io", "v1"), otherCRD(machinesCRD("v1!"))}, want: "v1"},
		"a CRD that loses a version, an instance":     {cached: machinesCRD("v1!", "v2"), desired: machinesCRD("v1!"), part: []*unstructured.Unstructured{webhooksFor("x.io", "v1"), instance}, want: "v1"},
		"a CRD with another version":                  {cached: machinesCRD("v1!", "v2"), desired: machinesCRD("v1!", "v3"), part: []*unstructured.Unstructured{webhooksFor("x.io", "v1")}, want: "v1"},
		"another object":                              {cached: settings("a", "red"), desired: settings("a", "blue"), want: "applied"},
	} {
		t.Run(name, func(t *testing.T) {
			clusterOf := func(o *unstructured.Unstructured) client.Client {
				builder := fake.NewClientBuilder().WithScheme(runtime.NewScheme())
				if o != nil {
					builder = builder.WithObjects(o.DeepCopy())
				}
				return builder.Build()
			}
			cached, live := clusterOf(test.cached), clusterOf(test.live)
			if test.live == nil {
				live = cached
			}
			phase := revision.Phase{Name: "core", Part: revision.Part{Owner: "4.22.0-2"}, Objects: []*unstructured.Unstructured{test.desired}}
			h := holder{
				owners: NewOwners(scheme.Scheme, v1alpha1.OpenShiftNamespaces.Operator), reader: cached, live: live, adopt: test.adopt, active: !test.released, part: []revision.Phase{phase, {Name: "rest", Objects: test.part}},
			}
			if !test.released {
				var err error
				if h.shrinks, err = h.shrink(t.Context()); err != nil {
					t.Fatal(err)
				}
			}
			applied, held, err := h.of(t.Context(), phase, []*unstructured.Unstructured{test.desired.DeepCopy()})
			if err != nil {
				t.Fatal(err)
			}
			got := "omitted"
			if len(applied) == 1 {
				got = "applied"
			}
			if object.IsCRD(test.desired) && len(applied) == 1 {
				got = object.StorageVersion(applied[0].(*unstructured.Unstructured))
			}
			if len(held) == 1 && !held[0].omitted {
				got += ", held"
			}
			if got != test.want || (len(held) == 1) != (got == "omitted" || strings.HasSuffix(got, "held")) {
				t.Errorf("got %q with %v, want %q", got, held, test.want)
			}
		})
	}
}

// An object that cannot be read may not be applied as if it did not exist: its storage version or its webhooks would be replaced too early.
func TestHolder_FailedReads(t *testing.T) {
	down := errors.New("unavailable")
	none := fake.NewClientBuilder().WithScheme(runtime.NewScheme()).WithObjects(machinesCRD("v1!")).Build()
	for name, readers := range map[string][2]client.Reader{"cache": {single{err: down}, none}, "API server": {none, single{err: down}}} {
		for _, desired := range []*unstructured.Unstructured{machinesCRD("v1", "v2!"), webhooksFor("x.io", "v1")} {
			h := holder{reader: readers[0], live: readers[1], active: true, adopt: sets.New(object.IdentityOf(desired))}
			phase := revision.Phase{Objects: []*unstructured.Unstructured{desired}}
			if applied, _, err := h.of(t.Context(), phase, []*unstructured.Unstructured{desired}); !errors.Is(err, down) || applied != nil {
				t.Errorf("%s, %s: %v is applied, error %v", name, desired.GetKind(), applied, err)
			}
		}
	}
}

// Objects wait for the pods of their own component.
func TestPartsOf(t *testing.T) {
	core, infrastructure := revision.Part{Owner: "4.22.0-1", Component: "core"}, revision.Part{Owner: "4.22.0-1", Component: "infrastructure"}
	var got []string
	for _, part := range partsOf([]revision.Phase{{Name: "a", Part: core}, {Name: "b", Part: core}, {Name: "c", Part: infrastructure}}) {
		var names []string
		for _, phase := range part {
			names = append(names, phase.Name)
		}
		got = append(got, strings.Join(names, " "))
	}
	if diff := cmp.Diff([]string{"a b", "c"}, got); diff != "" {
		t.Errorf("phases of each component (-want +got):\n%s", diff)
	}
}

// An object that waits is named in its phase. A phase with an omitted object is not complete, but its other objects count.
func TestWithHeld(t *testing.T) {
	crd, hooks := machinesCRD("v1!"), webhooksFor("x.io", "v1")
	phases := []Phase{{Name: "core", Complete: true, Objects: []Object{{Reference: ReferenceTo(crd), Ready: true, Available: true}}}}
	for _, test := range []struct {
		held                     []heldObject
		complete, ready, holding bool
		objects                  string
	}{
		{nil, true, true, false, "[true ]"},
		{[]heldObject{{Reference: ReferenceTo(crd), waits: "stores v1"}}, true, true, true, "[true stores v1]"},
		{[]heldObject{{Reference: ReferenceTo(hooks), waits: "later", omitted: true}}, false, true, true, "[true  false later]"},
	} {
		given := []Phase{phases[0]}
		given[0].Objects = append([]Object(nil), phases[0].Objects...)
		got := withHeld(given, test.held)
		var objects []any
		for _, o := range got[0].Objects {
			objects = append(objects, o.Ready, o.Held)
		}
		if !(Result{Phases: got}).Available() {
			t.Errorf("%v: an object that waits counts as unavailable", test.held)
		}
		if diff := cmp.Diff([]any{test.complete, test.ready, test.holding, test.objects}, []any{got[0].Complete, allButHeld(got), got[0].holds(), fmt.Sprint(objects)}); diff != "" {
			t.Errorf("%v (-want +got):\n%s", test.held, diff)
		}
	}
}

// established returns a CRD whose names are accepted.
func established(versions ...string) *unstructured.Unstructured {
	out := machinesCRD(versions...)
	out.Object["status"] = map[string]any{"conditions": []any{
		map[string]any{"type": "Established", "status": "True"}, map[string]any{"type": "NamesAccepted", "status": "True"},
	}}
	return out
}

// otherCRD returns a CRD like another one.
func otherCRD(crd *unstructured.Unstructured) *unstructured.Unstructured {
	crd.SetName("others.x.io")
	object.MapAt(crd.Object, "spec")["names"] = map[string]any{"kind": "Other", "plural": "others"}
	return crd
}

// A rollout switches the webhook configuration and then the storage version when the Deployment is ready: the former when the instance of one CRD can
// be read, the latter when the instances of all can. On the way back, the CRDs keep the version that the old pods serve until an instance cannot be read
// in it: then these pods have ended. Maintenance waits for nothing, also if the rollout before it has kept the result of the CRDs.
func TestEngine_HoldsUntilThePodsAreReady(t *testing.T) {
	forward, down := []string{"v1", "v2!"}, apierrors.NewInternalError(errors.New("down"))
	const held = "v1 of [v1 v2] for [v1] false"
	for name, test := range map[string]struct {
		before, after []string // versions of the CRDs
		ready         bool
		rejected      error // of the webhook configuration
		held, want    string
		steps         []string // reads of instances, and phases that are prepared again
		interrupted   bool     // after the webhooks are applied
	}{
		"a rollout": {[]string{"v1!"}, forward, true, nil, held, "v2 of [v1 v2] for [v2] true", []string{
			"machines.x.io: v1 of [v1 v2] for [v1]", "core: v1 of [v1 v2] for [v1]", "others.x.io: v1 of [v1 v2] for [v2]", "core-crds: v1 of [v1 v2] for [v2]",
		}, false},
		"webhooks are rejected": {[]string{"v1!"}, forward, true, apierrors.NewInvalid(schema.GroupKind{}, "webhooks", nil), held, held, nil, false},
		"webhooks fail":         {[]string{"v1!"}, forward, true, down, held, held, nil, false},
		"maintenance":           {[]string{"v1!"}, forward, false, nil, held, "v2 of [v1 v2] for [v2] false", nil, false},
		"the way back": {[]string{"v1!", "v2"}, []string{"v1!"}, true, nil, "v1 of [v1 v2] for [v2] false", "v1 of [v1] for [v1] true", []string{
			"machines.x.io: v1 of [v1 v2] for [v2]", "machines.x.io: v1 of [v1 v2] for [v2]", "core: v1 of [v1 v2] for [v2]", "core-crds: v1 of [v1 v2] for [v1]",
		}, false},
		"the way back, interrupted": {[]string{"v1!", "v2"}, []string{"v1!"}, true, nil, "v1 of [v1 v2] for [v2] false", "v1 of [v1] for [v1] true", []string{
			"machines.x.io: v1 of [v1 v2] for [v2]", "machines.x.io: v1 of [v1 v2] for [v2]", "core: v1 of [v1 v2] for [v2]", "core-crds: v1 of [v1 v2] for [v1]",
			"machines.x.io: v1 of [v1 v2] for [v1]", "core-crds: v1 of [v1 v2] for [v1]",
		}, true},
	} {
		newest := func(versions []string) string { return strings.TrimRight(versions[len(versions)-1], "!") }
		t.Run(name, func(t *testing.T) {
			all := runtime.NewScheme()
			if err := errors.Join(scheme.AddToScheme(all), apiextensionsv1.AddToScheme(all)); err != nil {
				t.Fatal(err)
			}
			ours := []client.Object{established(test.before...), otherCRD(established(test.before...)), webhooksFor("x.io", newest(test.before))}
			for _, o := range ours {
				o.SetLabels(map[string]string{ManagedByLabel: v1alpha1.Prefix})
				o.SetAnnotations(map[string]string{v1alpha1.RevisionAnnotation: "1"})
				if err := NewOwners(all, v1alpha1.OpenShiftNamespaces.Operator).Set("4.22.0-1", o); err != nil {
					t.Fatal(err)
				}
			}
			mapper := testrestmapper.TestOnlyStaticRESTMapper(all)
			cluster := fake.NewClientBuilder().WithScheme(all).WithRESTMapper(mapper).WithObjects(ours...).WithStatusSubresource(&appsv1.Deployment{}).WithInterceptorFuncs(interceptor.Funcs{
				Apply: func(ctx context.Context, next client.WithWatch, obj runtime.ApplyConfiguration, options ...client.ApplyOption) error {
					if o, ok := obj.(interface{ GetName() string }); ok && o.GetName() == "webhooks" && test.rejected != nil {
						return test.rejected
					}
					return next.Apply(ctx, obj, options...)
				},
				Patch: func(ctx context.Context, next client.WithWatch, obj client.Object, patch client.Patch, options ...client.PatchOption) error {
					if obj.GetName() == "webhooks" && test.rejected != nil {
						return test.rejected
					}
					return next.Patch(ctx, obj, patch, options...)
				},
			}).Build()
			engine, err := Assemble(Parts{
				Connection: Connection{Scheme: all, Mapper: mapper, Live: cluster, Writer: cluster, Namespace: v1alpha1.OpenShiftNamespaces.Operator},
				Discovery:  fixture.Schemas{}, Reader: cluster,
			})
			if err != nil {
				t.Fatal(err)
			}
			pods := &unstructured.Unstructured{Object: map[string]any{
				"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "capa", "namespace": v1alpha1.OpenShiftNamespaces.Operand},
				"spec": map[string]any{"replicas": int64(1)},
			}}
			part := revision.Part{Owner: "4.22.0-2", Component: "core"}
			rev := Revision{Name: "4.22.0-2", Key: "key", Phases: []revision.Phase{
				{Name: "core-crds", Part: part, Number: 2, Objects: []*unstructured.Unstructured{machinesCRD(test.after...), otherCRD(machinesCRD(test.after...))}},
				{Name: "core", Part: part, Number: 2, Objects: []*unstructured.Unstructured{pods, webhooksFor("x.io", newest(test.after))}},
			}}
			switched := func() string {
				crd, hooks := machinesCRD(), webhooksFor("x.io", "")
				if err := errors.Join(cluster.Get(t.Context(), client.ObjectKeyFromObject(crd), crd), cluster.Get(t.Context(), client.ObjectKeyFromObject(hooks), hooks)); err != nil {
					t.Fatal(err)
				}
				return fmt.Sprint(object.StorageVersion(crd), " of ", object.CRDVersions(crd), " for ", object.TextsAt(object.MapsAt(object.MapsAt(hooks.Object, "webhooks")[0], "rules")[0], "apiVersions"))
			}
			var steps []string
			readable := func(_ context.Context, crd string) (found bool, err error) {
				steps = append(steps, crd+": "+switched())
				if len(test.before) > len(test.after) && len(steps) > 1 {
					err = down
				}
				return true, err
			}
			prepare := func(_ context.Context, phase revision.Phase, released bool) error {
				if released {
					steps = append(steps, phase.Name+": "+switched())
				}
				if interrupts := test.interrupted && released && phase.Name == "core-crds"; interrupts {
					test.interrupted = false
					return down
				}
				return nil
			}
			apply := func(ordered bool) (state string) {
				t.Helper()
				result, err := engine.Apply(t.Context(), rev, Apply{Ordered: ordered, Readable: readable, Prepare: prepare})
				if err != nil && !errors.Is(err, test.rejected) && !errors.Is(err, down) {
					t.Fatal(err)
				}
				return fmt.Sprint(switched(), " ", result.Complete())
			}
			for range 3 {
				if got := apply(true); got != test.held {
					t.Fatalf("before the pods are ready: %s", got)
				}
			}
			if test.ready {
				live := &appsv1.Deployment{}
				if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(pods), live); err != nil {
					t.Fatal(err)
				}
				live.Status = appsv1.DeploymentStatus{ObservedGeneration: live.Generation, Replicas: 1, UpdatedReplicas: 1, AvailableReplicas: 1}
				if err := cluster.Status().Update(t.Context(), live); err != nil {
					t.Fatal(err)
				}
			}
			if test.interrupted {
				apply(true)
			}
			for range 2 {
				if got := apply(test.ready); got != test.want {
					t.Errorf("%s, want %s", got, test.want)
				}
			}
			if test.steps != nil && !slices.Equal(steps, test.steps) {
				t.Errorf("steps %q, want %q", steps, test.steps)
			}
		})
	}
}
