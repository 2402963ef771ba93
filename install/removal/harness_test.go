// SPDX-License-Identifier: Apache-2.0

package removal

import (
	"context"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/instance"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/test/fixture"
)

const machinesCRD = "machines.x.io"

// owners are the installer's.
var owners = engine.NewOwners(scheme.Scheme, v1alpha1.OpenShiftNamespaces.Operator)

// settings returns a ConfigMap.
func settings(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}}}
}

// machines returns a CRD.
func machines() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": machinesCRD},
		"spec": map[string]any{"group": "x.io", "names": map[string]any{"kind": "Machine", "plural": "machines"}, "versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}}},
	}}
}

// controlledBy returns an object that a version controls.
func controlledBy(t *testing.T, version string, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	object.SetLabels(map[string]string{engine.ManagedByLabel: v1alpha1.Prefix})
	if err := owners.Set(version, object); err != nil {
		t.Fatal(err)
	}
	return object
}

// revisionOf returns a revision of version 4.22.0-1 with one phase.
func revisionOf(objects ...*unstructured.Unstructured) engine.Revision {
	return engine.Revision{Name: "4.22.0-1", Phases: []revision.Phase{{Name: "core", Part: revision.Part{Owner: "4.22.0-1"}, Number: 1, Objects: objects}}}
}

// answer is a reader that answers every request with an error.
type answer struct{ error }

func (a answer) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return a.error
}

func (a answer) List(context.Context, client.ObjectList, ...client.ListOption) error { return a.error }

// noWatches are the watches of a cache that needs none.
type noWatches struct{}

func (noWatches) Watch(context.Context, client.Object, sets.Set[schema.GroupVersionKind]) error {
	return nil
}
func (noWatches) Free(context.Context, client.Object) error { return nil }

// removerOf returns a remover of a cluster whose cache is up to date.
func removerOf(t *testing.T, cluster client.WithWatch) *Remover {
	t.Helper()
	applier, err := engine.Assemble(engine.Parts{
		Connection: engine.Connection{
			Scheme: scheme.Scheme, Mapper: cluster.RESTMapper(), Live: cluster, Writer: cluster,
			Namespace: v1alpha1.OpenShiftNamespaces.Operator, Namespaces: engine.Namespaces{v1alpha1.OpenShiftNamespaces.Operand},
		},
		Discovery: fixture.Schemas{}, Watches: noWatches{}, Reader: cluster,
	})
	if err != nil {
		t.Fatal(err)
	}
	return &Remover{Engine: applier, Live: cluster, Writer: cluster, Instances: &instance.Access{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Live: cluster, Writer: cluster}}
}
