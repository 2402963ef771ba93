// SPDX-License-Identifier: Apache-2.0

package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// An ignored field has the actual value while the installer owns it, and is not desired otherwise. Other fields stay.
func TestEngine_IgnoredFields(t *testing.T) {
	const spec = `{"f:spec":{"f:replicas":{},"f:template":{"f:spec":{"f:containers":{"k:{\"name\":\"manager\"}":{".":{},"f:name":{},"f:image":{}}}}},"f:selector":{}}}`
	for name, test := range map[string]struct {
		fields          []string
		owned           string // managedFields of the installer
		actual, desired string // the spec
		want            string
	}{
		"owned by the installer":    {[]string{"/spec/replicas"}, spec, `{replicas: 5}`, `{replicas: 1}`, `{replicas: 5}`},
		"owned by another actor":    {[]string{"/spec/replicas"}, `{"f:spec":{"f:paused":{}}}`, `{replicas: 5}`, `{replicas: 1}`, `{}`},
		"removed by another actor":  {[]string{"/spec/replicas"}, spec, `{}`, `{replicas: 1}`, `{}`},
		"no field of the manifest":  {[]string{"/spec/paused"}, spec, `{paused: true}`, `{replicas: 1}`, `{replicas: 1}`},
		"a field of an atomic map":  {[]string{"/spec/selector/app"}, spec, `{selector: {app: b}}`, `{selector: {app: a}}`, `{selector: {app: b}}`},
		"an escaped name":           {[]string{"/spec/a~1b~0c"}, spec, `{"a/b~c": 2, ab: 2}`, `{"a/b~c": 1, ab: 1}`, `{ab: 1}`},
		"a missing parent":          {[]string{"/spec/x/y"}, spec, `{x: {y: 2}}`, `{replicas: 1}`, `{replicas: 1}`},
		"an index at the end":       {[]string{"/spec/list/1/a"}, spec, `{list: [{a: 1}, {a: 1}]}`, `{list: [{a: 2}]}`, `{list: [{a: 2}]}`},
		"a negative index":          {[]string{"/spec/list/-1/a"}, spec, `{list: [{a: 1}]}`, `{list: [{a: 2}]}`, `{list: [{a: 2}]}`},
		"no index":                  {[]string{"/spec/list/x/a"}, `{"f:spec":{"f:list":{}}}`, `{list: [{a: 1}]}`, `{list: [{a: 2}]}`, `{list: [{a: 2}]}`},
		"an item as a whole":        {[]string{"/spec/list/0"}, spec, `{list: [{a: 1}]}`, `{list: [{a: 2}]}`, `{list: [{a: 2}]}`},
		"an item that is gone":      {[]string{"/spec/list/1/a"}, spec, `{list: [{a: 1}]}`, `{list: [{a: 2}, {a: 3}]}`, `{list: [{a: 2}, {a: 3}]}`},
		"items by their index":      {[]string{"/spec/list/0/a", "/spec/list/1/a"}, `{"f:spec":{"f:list":{"i:0":{"f:a":{}}}}}`, `{list: [{a: 1}, {a: 1}]}`, `{list: [{a: 2}, {a: 2}]}`, `{list: [{a: 1}, {}]}`},
		"an item of another key":    {[]string{"/spec/list/0/a"}, `{"f:spec":{"f:list":{".":{},"k:{\"name\":\"y\"}":{"f:a":{}}}}}`, `{list: [{name: x, a: 1}]}`, `{list: [{name: x, a: 2}]}`, `{list: [{name: x}]}`},
		"an item with a default":    {[]string{"/spec/list/0/a"}, `{"f:spec":{"f:list":{"k:{\"name\":\"x\",\"protocol\":\"TCP\"}":{"f:a":{}}}}}`, `{list: [{name: x, a: 1}]}`, `{list: [{name: x, a: 2}]}`, `{list: [{name: x, a: 1}]}`},
		"an index out of the range": {[]string{"/spec/list/7/a"}, spec, `{list: [{a: 1}]}`, `{list: [{a: 2}]}`, `{list: [{a: 2}]}`},
		"an item with a name": {
			[]string{"/spec/template/spec/containers/0/image"}, spec,
			`{template: {spec: {containers: [{name: injected, image: i}, {name: manager, image: b}]}}}`,
			`{template: {spec: {containers: [{name: manager, image: a}]}}}`, `{template: {spec: {containers: [{name: manager, image: b}]}}}`,
		},
		"a removed item":         {[]string{"/spec/template/spec/containers/0/image"}, spec, `{template: {spec: {containers: []}}}`, `{template: {spec: {containers: [{name: manager, image: a}]}}}`, `{template: {spec: {containers: [{name: manager, image: a}]}}}`},
		"an item without a name": {[]string{"/spec/list/0/a"}, `{"f:spec":{"f:list":{}}}`, `{list: [{a: 1}]}`, `{list: [{a: 2, b: 2}]}`, `{list: [{a: 1, b: 2}]}`},
		"several fields":         {[]string{"/spec/replicas", "/spec/paused"}, spec, `{replicas: 2, paused: true}`, `{replicas: 1, paused: false}`, `{replicas: 2}`},
	} {
		t.Run(name, func(t *testing.T) {
			actual, desired, want := deploymentOf(t, test.actual), deploymentOf(t, test.desired), deploymentOf(t, test.want)
			entry := metav1.ManagedFieldsEntry{Manager: v1alpha1.FieldOwner, Operation: metav1.ManagedFieldsOperationApply, FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{}}
			entry.FieldsV1.SetRawBytes([]byte(test.owned))
			others := metav1.ManagedFieldsEntry{Manager: "other", FieldsType: "FieldsV1", FieldsV1: &metav1.FieldsV1{}}
			others.FieldsV1.SetRawBytes([]byte(`{"f:spec":{}}`)) // all of it
			status := others
			status.Manager, status.Subresource = v1alpha1.FieldOwner, "status"
			actual.SetManagedFields([]metav1.ManagedFieldsEntry{entry, others, status, {Manager: v1alpha1.FieldOwner}})
			before := desired.DeepCopy()
			policy := []v1alpha1.IgnoredFields{{Group: "apps", Kind: "Deployment", Name: "web", Fields: test.fields}, {Kind: "Deployment", Name: "web", Fields: []string{"/spec"}}}
			got, err := ignore(t.Context(), single{object: actual}, policy, desired)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want.Object, got.Object); diff != "" {
				t.Errorf("desired (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before.Object, desired.Object); diff != "" {
				t.Errorf("the argument has changed (-before +after):\n%s", diff)
			}
		})
	}
}

// single is a reader of one object.
type single struct {
	client.Reader
	object *unstructured.Unstructured
	err    error
}

func (s single) Get(_ context.Context, _ client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	if s.err != nil {
		return s.err
	}
	s.object.DeepCopyInto(into.(*unstructured.Unstructured))
	return nil
}

// An object that does not exist is created with the values of the manifest.
func TestEngine_IgnoredFieldsOfANewObject(t *testing.T) {
	desired := deploymentOf(t, `{replicas: 1}`)
	got, err := ignore(t.Context(), fake.NewClientBuilder().Build(), []v1alpha1.IgnoredFields{{Group: "apps", Kind: "Deployment", Name: "web", Fields: []string{"/spec/replicas"}}}, desired)
	if err != nil || !cmp.Equal(got.Object, desired.Object) {
		t.Errorf("got %v, %v", got, err)
	}
	down := errors.New("unavailable")
	if got, err := ignore(t.Context(), single{err: down}, []v1alpha1.IgnoredFields{{Group: "apps", Kind: "Deployment", Name: "web", Fields: []string{"/spec/replicas"}}}, desired); !errors.Is(err, down) {
		t.Errorf("an object that cannot be read: %v, %v", got, err)
	}
}

func deploymentOf(t *testing.T, spec string) *unstructured.Unstructured {
	t.Helper()
	content := map[string]any{}
	if err := yaml.Unmarshal([]byte(spec), &content); err != nil {
		t.Fatal(err)
	}
	out := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	out.SetGroupVersionKind(schema.GroupVersionKind{Group: "apps", Version: "v1", Kind: "Deployment"})
	out.SetName("web")
	out.SetNamespace(v1alpha1.OpenShiftNamespaces.Operand)
	data, err := out.MarshalJSON() // integers, not floats
	if err == nil {
		err = out.UnmarshalJSON(data)
	}
	if err != nil {
		t.Fatal(err)
	}
	return out
}
