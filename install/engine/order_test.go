// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta/testrestmapper"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// ordered is a cluster that records the deletions, and an engine for it.
type ordered struct {
	client.WithWatch
	engine  *Engine
	mu      sync.Mutex
	deleted []string
	err     error // of deletions
}

func newOrdered(t *testing.T, objects ...client.Object) *ordered {
	t.Helper()
	o := &ordered{}
	mapper := testrestmapper.TestOnlyStaticRESTMapper(scheme.Scheme)
	o.WithWatch = fake.NewClientBuilder().WithRESTMapper(mapper).WithObjects(objects...).WithInterceptorFuncs(interceptor.Funcs{
		Delete: func(ctx context.Context, next client.WithWatch, obj client.Object, options ...client.DeleteOption) error {
			o.mu.Lock()
			o.deleted = append(o.deleted, obj.GetName())
			o.mu.Unlock()
			if o.err != nil {
				return o.err
			}
			return next.Delete(ctx, obj, options...)
		},
	}).Build()
	var err error
	o.engine, err = Assemble(Parts{
		Connection: Connection{Scheme: scheme.Scheme, Mapper: mapper, Live: o, Writer: o, Namespace: v1alpha1.OpenShiftNamespaces.Operator, Namespaces: cached},
		Discovery:  fixture.Schemas{}, Reader: o,
	})
	if err != nil {
		t.Fatal(err)
	}
	return o
}

// names returns the names of the ConfigMaps that exist, sorted.
func (o *ordered) names(t *testing.T) (names []string) {
	t.Helper()
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(settings("", "").GroupVersionKind())
	if err := o.List(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	for _, item := range list.Items {
		names = append(names, item.GetName())
	}
	slices.Sort(names)
	return names
}

// inPhases returns a revision of version 4.22.0-1 with a phase for each list of ConfigMaps.
func inPhases(phases ...[]string) Revision {
	out := Revision{Name: "4.22.0-1"}
	for i, names := range phases {
		phase := revision.Phase{Name: fmt.Sprintf("phase-%d", i+1), Part: revision.Part{Owner: "4.22.0-1"}, Number: 1}
		for _, name := range names {
			phase.Objects = append(phase.Objects, inNamespace(name))
		}
		out.Phases = append(out.Phases, phase)
	}
	return out
}

func inNamespace(name string) *unstructured.Unstructured {
	out := settings(name, "red")
	out.SetNamespace(v1alpha1.OpenShiftNamespaces.Operand)
	return out
}

// The last phase is removed first, and an earlier one only when no object of the later ones is left: its objects serve them.
func TestEngine_RemovesTheLastPhaseFirst(t *testing.T) {
	rev := inPhases([]string{"a", "b"}, []string{"c"})
	var objects []client.Object
	for _, phase := range rev.Phases {
		for _, obj := range phase.Objects {
			ours := obj.DeepCopy()
			ours.SetLabels(map[string]string{ManagedByLabel: v1alpha1.Prefix})
			if err := NewOwners(scheme.Scheme, v1alpha1.OpenShiftNamespaces.Operator).Set("4.22.0-1", ours); err != nil {
				t.Fatal(err)
			}
			if ours.GetName() == "c" {
				ours.SetFinalizers([]string{"example.com/blocks"})
			}
			objects = append(objects, ours)
		}
	}
	cluster := newOrdered(t, objects...)
	remove := func() bool {
		t.Helper()
		removed, err := cluster.engine.Remove(t.Context(), rev, Remove{})
		if err != nil {
			t.Fatal(err)
		}
		if waits := removed.Phases[0].Waiting; !removed.Complete && (len(waits) != 1 || waits[0].Name != "c") && cluster.deleted[len(cluster.deleted)-1] == "c" {
			t.Errorf("waiting for %v", waits)
		}
		return removed.Complete
	}
	cluster.err = errors.New("unavailable")
	if removed, err := cluster.engine.Remove(t.Context(), rev, Remove{}); !errors.Is(err, cluster.err) || removed.Complete {
		t.Errorf("a failed deletion: %+v, %v", removed, err)
	}
	cluster.err = nil
	for range 2 {
		if complete := remove(); complete || !slices.Equal(cluster.names(t), []string{"a", "b", "c"}) {
			t.Fatalf("complete: %t, %v exist while the last phase is blocked", complete, cluster.names(t))
		}
	}
	blocked := inNamespace("c")
	if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(blocked), blocked); err != nil {
		t.Fatal(err)
	}
	blocked.SetFinalizers(nil)
	if err := cluster.Update(t.Context(), blocked); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		remove()
	}
	if cluster.deleted[0] != "c" || !remove() || cluster.names(t) != nil {
		t.Errorf("deletions of %v, %v exist", cluster.deleted, cluster.names(t))
	}
}

// A phase is applied when the previous one is complete, unless all phases were complete before.
func TestEngine_AppliesPhasesInOrder(t *testing.T) {
	for name, test := range map[string]struct {
		ordered bool
		next    string // component of the second phase
		want    []string
	}{
		"a rollout": {true, "", nil}, "a rollout, the next component": {true, "next", nil},
		"maintenance": {false, "", []string{"later"}}, "maintenance, the next component": {false, "next", []string{"later"}},
	} {
		cluster := newOrdered(t)
		rev := inPhases([]string{"waits"}, []string{"later"})
		rev.Phases[1].Component = test.next
		waits := &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "apps/v1", "kind": "Deployment", "metadata": map[string]any{"name": "waits", "namespace": v1alpha1.OpenShiftNamespaces.Operand},
		}}
		rev.Phases[0].Objects = []*unstructured.Unstructured{waits} // no controller makes it available
		result, err := cluster.engine.Apply(t.Context(), rev, Apply{Ordered: test.ordered})
		if err != nil {
			t.Fatal(err)
		}
		if got := cluster.names(t); !slices.Equal(got, test.want) || result.Complete() {
			t.Errorf("%s: %v exist, want %v; complete: %t", name, got, test.want, result.Complete())
		}
		if err := cluster.Get(t.Context(), client.ObjectKeyFromObject(waits), waits.DeepCopy()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// An error ends a rollout, and not the maintenance of the other phases. A busy API server gets no further requests.
func TestEngine_ErrorsOfPhases(t *testing.T) {
	down, busy := errors.New("down"), apierrors.NewTooManyRequests("busy", 1)
	for _, component := range []string{"core", "other"} { // the failing phase is in the same component as the next one, or in another one
		for _, test := range []struct {
			err     error
			ordered bool
			want    []string
		}{{down, true, nil}, {busy, true, nil}, {down, false, []string{"b"}}, {busy, false, nil}} {
			cluster, rev := newOrdered(t), inPhases([]string{"a"}, []string{"b"})
			rev.Phases[0].Part.Component, rev.Phases[1].Part.Component = component, "core"
			how := Apply{Ordered: test.ordered, Prepare: func(_ context.Context, phase revision.Phase, _ bool) error {
				if phase.Name == rev.Phases[0].Name {
					return test.err
				}
				return nil
			}}
			if _, err := cluster.engine.Apply(t.Context(), rev, how); !errors.Is(err, test.err) || !slices.Equal(cluster.names(t), test.want) {
				t.Errorf("%s, ordered %t, %v: error %v, %v exist, want %v", component, test.ordered, test.err, err, cluster.names(t), test.want)
			}
		}
	}
}
