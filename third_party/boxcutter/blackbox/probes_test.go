// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"pkg.package-operator.run/boxcutter/probing"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// definition is a kind without validation. Its group is the env's own.
func (b *env) definition(kind string) *unstructured.Unstructured {
	b.Helper()
	plural := strings.ToLower(kind) + "s"
	return b.object(`
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: %[2]s.%[3]s.example.com}
spec:
  group: %[3]s.example.com
  scope: Namespaced
  names: {kind: %[1]s, plural: %[2]s, singular: %[4]s, listKind: %[1]sList}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, x-kubernetes-preserve-unknown-fields: true}
          status: {type: object, x-kubernetes-preserve-unknown-fields: true}
`, kind, plural, b.namespace, strings.ToLower(kind))
}

// define creates a kind and waits until objects of it can be created. It is removed at the end of the test.
func (b *env) define(kind string) {
	b.Helper()
	definition := b.definition(kind)
	b.create(definition)
	b.removeAtEnd(definition)
	b.eventually("the kind is served", func() bool {
		list := &unstructured.UnstructuredList{}
		list.SetGroupVersionKind(schema.GroupVersionKind{Group: b.namespace + ".example.com", Version: "v1", Kind: kind + "List"})
		return b.established(definition) && b.user.List(b.Context(), list) == nil
	})
}

func (b *env) established(definition *unstructured.Unstructured) bool {
	return (&probing.ConditionProbe{Type: "Established", Status: "True"}).Probe(b.get(definition)).Status == probing.StatusTrue
}

// removeAtEnd deletes a cluster-scoped object at the end of the test.
func (b *env) removeAtEnd(object client.Object) {
	b.Cleanup(func() {
		if err := client.IgnoreNotFound(b.user.Delete(context.Background(), object)); err != nil {
			b.Error(err)
		}
	})
}

// widget returns an object of a defined kind.
func (b *env) widget(name string) *unstructured.Unstructured {
	b.Helper()
	out := b.object(`{apiVersion: %s.example.com/v1, kind: Widget, metadata: {name: %s, labels: {app: web}}, spec: {size: 3, color: red}}`, b.namespace, name)
	out.SetNamespace(b.namespace)
	return out
}

var (
	ready = &probing.ConditionProbe{Type: "Ready", Status: "True"}
)
