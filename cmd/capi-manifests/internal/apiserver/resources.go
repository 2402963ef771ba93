// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"
)

// resources are the resources of an API server.
type resources struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
}

// send applies an object in a dry run.
func (r *resources) send(ctx context.Context, object *unstructured.Unstructured) error {
	resource, err := r.of(object)
	if err != nil {
		return err
	}
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{DryRun: []string{metav1.DryRunAll}, FieldManager: askingAs, Force: true})
	return err
}

// of returns the client for the resource of an object.
func (r *resources) of(object *unstructured.Unstructured) (dynamic.ResourceInterface, error) {
	mapping, err := r.mapping(object.GroupVersionKind())
	if err != nil {
		return nil, err
	}
	if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
		return r.client.Resource(mapping.Resource).Namespace(object.GetNamespace()), nil
	}
	return r.client.Resource(mapping.Resource), nil
}

func (r *resources) mapping(kind schema.GroupVersionKind) (*meta.RESTMapping, error) {
	return r.mapper.RESTMapping(kind.GroupKind(), kind.Version)
}
