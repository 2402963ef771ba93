// SPDX-License-Identifier: Apache-2.0

package instance

import (
	"context"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// machines returns a CRD.
func machines() *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": map[string]any{"name": "machines.x.io"},
		"spec": map[string]any{"group": "x.io", "names": map[string]any{"kind": "Machine", "plural": "machines"}, "versions": []any{map[string]any{"name": "v1", "served": true, "storage": true}}},
	}}
}

// instanceLister lists the instances of a CRD.
type instanceLister struct {
	error
	names []string
	kind  *schema.GroupVersionKind // of the last list
	gone  bool                     // the CRD does not exist
}

func (l instanceLister) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	switch {
	case l.gone:
		return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
	case apierrors.IsNotFound(l.error): // only the kind of the instances is not found
		return nil
	}
	return l.error
}

func (l instanceLister) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	*l.kind = into.GetObjectKind().GroupVersionKind()
	for _, name := range l.names {
		object := metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{Name: name}}
		object.SetGroupVersionKind(l.kind.GroupVersion().WithKind(l.kind.Kind))
		list := into.(*metav1.PartialObjectMetadataList)
		list.Items = append(list.Items, object)
	}
	return l.error
}

// Guarantee: a CRD is deleted only if the API server answers that it has no instance.
func TestAccess_Of(t *testing.T) {
	internal := &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: 500}}
	unreadable := &apierrors.StatusError{ErrStatus: metav1.Status{Reason: metav1.StatusReasonStoreReadError, Message: "failed to read one or more machines.x.io from the storage"}}
	for name, test := range map[string]struct {
		established, served bool
		names               []string
		answer              error
		gone                bool
		converted           bool   // a webhook converts instances of another version
		want                string // a part of the reason; empty if there are none
		failed              bool
	}{
		"none":                          {established: true, served: true},
		"one":                           {established: true, served: true, names: []string{"one"}, want: "it has instances, such as Machine one"},
		"not Established":               {served: true, want: "it may have instances"},
		"no version is served":          {established: true, want: "it may have instances"},
		"the conversion webhook failed": {established: true, served: true, converted: true, answer: internal, want: "it has instances, which cannot be converted"},
		"a stored object is unreadable": {established: true, served: true, answer: unreadable, want: "it has instances, which cannot be converted"},
		"an internal error":             {established: true, served: true, answer: internal, failed: true},
		"forbidden":                     {established: true, served: true, answer: apierrors.NewForbidden(schema.GroupResource{}, "", nil), failed: true},
		"the kind is not found":         {established: true, served: true, answer: apierrors.NewNotFound(schema.GroupResource{}, ""), failed: true},
		"the CRD was deleted meanwhile": {established: true, served: true, answer: apierrors.NewNotFound(schema.GroupResource{}, ""), gone: true},
	} {
		t.Run(name, func(t *testing.T) {
			crd := machines()
			crd.Object["spec"].(map[string]any)["versions"].([]any)[0].(map[string]any)["served"] = test.served
			conditionStatus := map[bool]string{true: "True", false: "False"}[test.established]
			crd.Object["status"] = map[string]any{"conditions": []any{map[string]any{"type": "Established", "status": conditionStatus}}}
			if test.converted {
				crd.Object["spec"].(map[string]any)["conversion"] = map[string]any{"strategy": "Webhook"}
				crd.Object["status"].(map[string]any)["storedVersions"] = []any{"v1beta1", "v1"}
			}
			access := &Access{Live: instanceLister{error: test.answer, names: test.names, kind: &schema.GroupVersionKind{}, gone: test.gone}}
			reason, err := access.Of(t.Context(), crd)
			if (err != nil) != test.failed || !strings.Contains(reason, test.want) || (reason == "") != (test.want == "") {
				t.Errorf("got %q, %v; want %q, an error: %t", reason, err, test.want, test.failed)
			}
		})
	}
}

// A list in the storage version needs no conversion.
func TestListKind(t *testing.T) {
	version := func(name string, served, storage bool) any {
		return map[string]any{"name": name, "served": served, "storage": storage}
	}
	for name, test := range map[string]struct {
		versions []any
		want     string
	}{
		"the storage version is served":   {[]any{version("v1", true, false), version("v2", true, true), version("v3", true, false)}, "v2"},
		"another version is served":       {[]any{version("v1", false, true), version("v2", true, false), version("v3", true, false)}, "v2"},
		"no version is served":            {[]any{version("v1", false, true)}, ""},
		"the storage version comes first": {[]any{version("v1", true, true), version("v2", true, false)}, "v1"},
	} {
		crd := machines()
		crd.Object["spec"].(map[string]any)["versions"] = test.versions
		if got, want := ListKind(crd), (schema.GroupVersionKind{Group: "x.io", Version: test.want, Kind: "MachineList"}); got != want {
			t.Errorf("%s: got %v, want %v", name, got, want)
		}
	}
}
