// SPDX-License-Identifier: Apache-2.0

package crdpack

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utiljson "k8s.io/apimachinery/pkg/util/json"
)

// verboseCRD returns a CRD with a number of described fields.
func verboseCRD(fields int) *unstructured.Unstructured {
	properties := map[string]any{}
	for i := range fields {
		properties[fmt.Sprintf("field%d", i)] = map[string]any{"type": "integer", "minimum": int64(i), "description": fmt.Sprintf("what field %d is <for>, in a sentence", i)}
	}
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
		"metadata": map[string]any{"name": "machines.cluster.x-k8s.io"},
		"spec": map[string]any{
			"group":    "cluster.x-k8s.io",
			"versions": []any{map[string]any{"name": "v1beta1", "schema": map[string]any{"openAPIV3Schema": map[string]any{"properties": properties}}}},
		},
	}}
}

func packed(t *testing.T, obj *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	out := obj.DeepCopy()
	if err := Pack(out); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPack_RoundTrip(t *testing.T) {
	crd := verboseCRD(200)
	small := packed(t, crd)
	content, _ := json.Marshal(crd)
	if size := len(small.Object[packedVersions].(string)); size > len(content)/4 {
		t.Errorf("the packed versions have %d bytes, the whole CRD %d", size, len(content))
	}
	before := small.DeepCopy()
	got, err := Unpack(small)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(crd, got); diff != "" {
		t.Errorf("the CRD differs after the round trip (-want +got):\n%s", diff)
	}
	got.Object["metadata"].(map[string]any)["name"] = "changed"
	if diff := cmp.Diff(before, small); diff != "" {
		t.Errorf("the packed CRD shares fields with the whole one:\n%s", diff)
	}
}

func TestPack_LeavesOtherObjects(t *testing.T) {
	for name, content := range map[string]map[string]any{
		"another kind":              {"apiVersion": "v1", "kind": "ConfigMap", "spec": map[string]any{"versions": []any{"v1"}}},
		"a CRD without versions":    {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": map[string]any{}},
		"a CRD without a spec":      {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition"},
		"versions that are no list": {"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": map[string]any{"versions": "v1"}},
	} {
		o := &unstructured.Unstructured{Object: content}
		if got := packed(t, o); !cmp.Equal(o, got) {
			t.Errorf("%s: the object was modified:\n%s", name, cmp.Diff(o, got))
		}
		if got, err := Unpack(o); err != nil || got != o {
			t.Errorf("%s: got %v (%v), want the object itself", name, got, err)
		}
	}
}

func TestEncode_SameJSONPackedAndWhole(t *testing.T) {
	crd := verboseCRD(20)
	var want bytes.Buffer
	encoder := json.NewEncoder(&want)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(crd.Object); err != nil {
		t.Fatal(err)
	}
	for _, o := range []*unstructured.Unstructured{crd, packed(t, crd)} {
		got, err := Encode(o)
		if diff := cmp.Diff(strings.TrimSuffix(want.String(), "\n"), string(got)); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

func TestDecode_SameAsDecodingAndPacking(t *testing.T) {
	for name, text := range map[string]string{
		"a CRD":                     string(must(Encode(verboseCRD(20)))),
		"with spaces":               `{ "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "spec": { "a": 1, "versions": [ {"name": "v1"} ] } }`,
		"another kind":              `{"apiVersion":"v1","kind":"ConfigMap","spec":{"versions":[1]}}`,
		"another group":             `{"apiVersion":"v1","kind":"CustomResourceDefinition","spec":{"versions":[1]}}`,
		"without versions":          `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"a":2,"b":[1.5]}}`,
		"versions that are no list": `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":{"versions":{}}}`,
		"a spec that is no map":     `{"apiVersion":"apiextensions.k8s.io/v1","kind":"CustomResourceDefinition","spec":[]}`,
		"a kind that is no string":  `{"apiVersion":[],"kind":7,"spec":{"versions":[1]}}`,
		"null":                      `null`,
	} {
		want := &unstructured.Unstructured{}
		if err := utiljson.Unmarshal([]byte(text), &want.Object); err != nil {
			t.Fatal(err)
		}
		got, err := Decode([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if got, err = Unpack(got); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if packed := must(Decode(must(Encode(verboseCRD(20))))); !isPacked(packed) {
		t.Error("the CRD is not packed")
	}
	for _, text := range []string{``, `[]`, `{`, `{"spec":}`, `{"spec.versions, compressed":""}`} {
		if _, err := Decode([]byte(text)); err == nil {
			t.Errorf("%q: no error", text)
		}
	}
}

func must[T any](value T, err error) T {
	if err != nil {
		panic(err)
	}
	return value
}

func TestPack_RejectsTheReservedField(t *testing.T) {
	if err := Pack(packed(t, verboseCRD(1))); err == nil || !strings.Contains(err.Error(), "CustomResourceDefinition machines.cluster.x-k8s.io is reserved") {
		t.Errorf("got %v", err)
	}
}

func TestUnpack_DamagedCRDIsNamed(t *testing.T) {
	damaged, headless, huge := packed(t, verboseCRD(1)), packed(t, verboseCRD(1)), packed(t, verboseCRD(1))
	damaged.Object[packedVersions] = "damaged"
	delete(headless.Object, "spec")
	huge.Object[packedVersions] = "\xff\xff\xff\xff\x0f" // the header of 4 GiB
	for _, crd := range []*unstructured.Unstructured{damaged, headless, huge} {
		_, errUnpack := Unpack(crd)
		_, errEncode := Encode(crd)
		for _, err := range []error{errUnpack, errEncode} {
			if err == nil || !strings.Contains(err.Error(), "machines.cluster.x-k8s.io") {
				t.Errorf("got %v", err)
			}
		}
	}
}
