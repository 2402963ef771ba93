// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// verboseCRD returns a CRD with a number of described fields.
func verboseCRD(t *testing.T, fields int) *unstructured.Unstructured {
	t.Helper()
	var properties strings.Builder
	for i := range fields {
		fmt.Fprintf(&properties, "            field%d: {type: integer, minimum: %d, description: 'what field %d is for, in a sentence'}\n", i, i, i)
	}
	crd := &unstructured.Unstructured{}
	err := yaml.Unmarshal([]byte(`apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: machines.cluster.x-k8s.io
  uid: 1-2-3
  resourceVersion: "7"
  generation: 3
  labels: {app.kubernetes.io/managed-by: capi-operator.openshift.io}
  annotations: {example.com/other: x, `+v1alpha1.OwnersAnnotation+`: '[]'}
  managedFields: [{manager: other, operation: Update, fieldsV1: {"f:metadata": {}}}]
spec:
  group: cluster.x-k8s.io
  versions:
  - name: v1beta1
    schema:
      openAPIV3Schema:
        properties:
          spec:
            properties:
`+properties.String()), &crd.Object)
	if err != nil {
		t.Fatal(err)
	}
	return crd
}

func TestTransform_CRDRoundTrip(t *testing.T) {
	crd := verboseCRD(t, 200)
	want := crd.DeepCopy()
	kept, err := compress(crd)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Object, crd.Object); diff != "" {
		t.Errorf("compress modified its argument:\n%s", diff)
	}
	small := kept.(*unstructured.Unstructured)
	if again, err := compress(small); err != nil || again != kept {
		t.Errorf("a compressed object was compressed again (%v)", err)
	}
	if small.GetResourceVersion() != "7" || small.GetUID() != "1-2-3" || len(small.GetLabels()) != 1 {
		t.Errorf("compressed object lacks metadata: %v", small.Object["metadata"])
	}
	if diff := cmp.Diff(map[string]string{v1alpha1.OwnersAnnotation: "[]"}, small.GetAnnotations()); diff != "" {
		t.Errorf("handlers of events read the owners; unexpected annotations (-want +got):\n%s", diff)
	}
	whole, _ := want.MarshalJSON()
	if size := len(small.Object[compressed].(json.Number)); size > len(whole)/4 {
		t.Errorf("compressed object has %d bytes, the original %d", size, len(whole))
	}
	read := small.DeepCopy() // a cache returns copies
	if err := decompress(read); err != nil {
		t.Fatal(err)
	}
	want.Object["spec"] = normal(t, want.Object["spec"])
	if diff := cmp.Diff(want.Object["spec"], read.Object["spec"]); diff != "" {
		t.Errorf("unexpected spec (-want +got):\n%s", diff)
	}
	if len(read.GetManagedFields()) != 1 {
		t.Error("managed fields of other managers are missing")
	}
}

// normal returns a value with integers of the type that decoding an API object gives.
func normal(t *testing.T, value any) any {
	t.Helper()
	wrapped := unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "X", "value": value}}
	content, err := wrapped.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	out := unstructured.Unstructured{}
	if err := out.UnmarshalJSON(content); err != nil {
		t.Fatal(err)
	}
	return out.Object["value"]
}

// Guarantee: readers get every object as the API server sent it, with any names of fields.
func TestTransform_RoundTripOfAnyObject(t *testing.T) {
	for name, content := range map[string]map[string]any{
		"namespaced":        {"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "a", "name": "b", "generation": int64(4)}, "data": map[string]any{"x": "<y>"}},
		"cluster-scoped":    {"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": "b"}},
		"looks compressed":  {"apiVersion": "example.com/v1", "kind": "X", "metadata": map[string]any{"name": "b"}, compressed: "no"},
		"compressed number": {"apiVersion": "example.com/v1", "kind": "X", "metadata": map[string]any{"name": "b"}, compressed: int64(7)},
	} {
		obj := &unstructured.Unstructured{Object: content}
		kept, err := compress(obj)
		if err != nil {
			t.Fatal(err)
		}
		small := kept.(*unstructured.Unstructured)
		if small.GetNamespace() != obj.GetNamespace() || small.GetName() != obj.GetName() || small.GroupVersionKind() != obj.GroupVersionKind() {
			t.Errorf("%s: the compressed object has another identity: %v", name, small.Object)
		}
		if small.GetGeneration() != obj.GetGeneration() {
			t.Errorf("%s: the compressed object has generation %d, want %d", name, small.GetGeneration(), obj.GetGeneration())
		}
		read := small.DeepCopy() // a cache returns copies
		if err := decompress(read); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(obj, read); diff != "" {
			t.Errorf("%s: the object differs after the round trip (-want +got):\n%s", name, diff)
		}
		if err := decompress(read); err != nil || !cmp.Equal(obj, read) {
			t.Errorf("%s: a whole object was decompressed (%v)", name, err)
		}
	}
}

// compressedCache holds one compressed object.
type compressedCache struct {
	client.Reader
	small *unstructured.Unstructured
}

func (c compressedCache) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	c.small.DeepCopyInto(into.(*unstructured.Unstructured))
	return nil
}

func (c compressedCache) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	into.(*unstructured.UnstructuredList).Items = []unstructured.Unstructured{*c.small.DeepCopy(), *c.small.DeepCopy()}
	return nil
}

func TestCache_ReturnsWholeObjects(t *testing.T) {
	whole := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"namespace": "a", "name": "b"}, "data": map[string]any{"x": "y"},
	}}
	small, err := compress(whole)
	if err != nil {
		t.Fatal(err)
	}
	cache := decompressing{compressedCache{small: small.(*unstructured.Unstructured)}}
	read, list := &unstructured.Unstructured{}, &unstructured.UnstructuredList{}
	if err := errors.Join(cache.Get(t.Context(), client.ObjectKeyFromObject(whole), read), cache.List(t.Context(), list)); err != nil {
		t.Fatal(err)
	}
	for _, got := range append(list.Items, *read) {
		if diff := cmp.Diff(whole.Object, got.Object); diff != "" {
			t.Errorf("object (-want +got):\n%s", diff)
		}
	}
}

// A cache also passes the marks of deleted objects to its transform function.
func TestTransform_OtherTypesStay(t *testing.T) {
	deleted := "any other type"
	if kept, err := compress(deleted); err != nil || kept != deleted {
		t.Errorf("got %v, %v", kept, err)
	}
}

func TestRestore_DamagedObjectIsNamed(t *testing.T) {
	crd := &unstructured.Unstructured{Object: map[string]any{compressed: json.Number("damaged")}}
	crd.SetName("machines.cluster.x-k8s.io")
	if err := decompress(crd); err == nil || !strings.Contains(err.Error(), "machines.cluster.x-k8s.io") {
		t.Errorf("got %v", err)
	}
}

// BenchmarkCompress also reports how many times the size of its JSON a decoded CRD of
// OpenShift takes in memory.
func BenchmarkCompress(b *testing.B) {
	crds, err := fixture.OpenShiftCRDs(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var texts [][]byte
	size := 0
	for _, crd := range crds {
		text, err := crd.MarshalJSON()
		if err != nil {
			b.Fatal(err)
		}
		texts, size = append(texts, text), size+len(text)
	}
	decode := func() []any {
		var all []any
		for _, text := range texts {
			crd := &unstructured.Unstructured{}
			if err := crd.UnmarshalJSON(text); err != nil {
				b.Fatal(err)
			}
			all = append(all, crd)
		}
		return all
	}
	decoded := live(decode)
	for b.Loop() {
		for _, crd := range decode() {
			if _, err := compress(crd); err != nil {
				b.Fatal(err)
			}
		}
	}
	b.ReportMetric(decoded/float64(size), "decoded/JSON")
	runtime.KeepAlive(crds) // collected during the measurement, they would reduce the difference
}

// live returns the bytes of the heap that the result of a function takes.
func live(make func() []any) float64 {
	var before, after runtime.MemStats
	runtime.GC()
	runtime.GC() // the first one leaves what finalizers and pools hold
	runtime.ReadMemStats(&before)
	made := make()
	runtime.GC()
	runtime.GC()
	runtime.ReadMemStats(&after)
	runtime.KeepAlive(made)
	return float64(after.HeapAlloc) - float64(before.HeapAlloc)
}
