// SPDX-License-Identifier: Apache-2.0

package apiserver

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/restmapper"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/internal/object"
)

// resources are the resources of an API server, also those that CRDs have defined since discovery.
type resources struct {
	client dynamic.Interface
	mapper *restmapper.DeferredDiscoveryRESTMapper
	// defined maps the kinds that CRDs have defined here, a
	// schema.GroupVersionKind, to a *meta.RESTMapping.
	defined sync.Map
}

// send applies an object.
func (r *resources) send(ctx context.Context, object *unstructured.Unstructured, dryRun bool) error {
	resource, err := r.of(object)
	if err != nil {
		return err
	}
	var dry []string
	if dryRun {
		dry = []string{metav1.DryRunAll}
	}
	object = object.DeepCopy()
	object.SetManagedFields(nil)
	_, err = resource.Apply(ctx, object.GetName(), object, metav1.ApplyOptions{DryRun: dry, FieldManager: askingAs, Force: true})
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
	if defined, found := r.defined.Load(kind); found {
		mapping, _ := defined.(*meta.RESTMapping)
		return mapping, nil
	}
	return r.mapper.RESTMapping(kind.GroupKind(), kind.Version)
}

// serve waits until the versions of an established CRD are served, and records
// them, because discovery lags behind.
func (r *resources) serve(ctx context.Context, crd *unstructured.Unstructured) error {
	var definition apiextensionsv1.CustomResourceDefinition
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(crd.Object, &definition); err != nil {
		return fmt.Errorf("reading CRD %s: %w", crd.GetName(), err)
	}
	scopes := map[apiextensionsv1.ResourceScope]meta.RESTScope{apiextensionsv1.NamespaceScoped: meta.RESTScopeNamespace, apiextensionsv1.ClusterScoped: meta.RESTScopeRoot}
	for _, version := range definition.Spec.Versions {
		if !version.Served {
			continue
		}
		resource := schema.GroupVersionResource{Group: definition.Spec.Group, Version: version.Name, Resource: definition.Spec.Names.Plural}
		err := until(ctx, resource.String()+" to be served", func(ctx context.Context) error {
			_, err := r.client.Resource(resource).List(ctx, metav1.ListOptions{Limit: 1})
			return err
		})
		if err != nil {
			return err
		}
		kind := resource.GroupVersion().WithKind(definition.Spec.Names.Kind)
		r.defined.Store(kind, &meta.RESTMapping{Resource: resource, GroupVersionKind: kind, Scope: scopes[definition.Spec.Scope]})
	}
	return nil
}

// established waits until a CRD is established, or its names are rejected.
func (r *resources) established(ctx context.Context, name string) (answer contract.Answer, err error) {
	err = until(ctx, "CRD "+name+" to be established", func(ctx context.Context) error {
		crd, err := r.client.Resource(object.CRDResource).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return err
		}
		established := conditionOf(crd, "Established")
		names := conditionOf(crd, "NamesAccepted")
		switch {
		case names.Status == metav1.ConditionFalse:
			answer = contract.Answer{Verdict: contract.Rejected, Causes: []contract.Cause{{Field: "spec.names", Message: "names not accepted: " + names.Message}}}
		case established.Status != metav1.ConditionTrue:
			return fmt.Errorf("Established is %q: %s", established.Status, established.Message) //nolint:staticcheck // the name of the condition
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		return contract.Answer{Verdict: contract.Rejected, Causes: []contract.Cause{{Message: "not established: " + err.Error()}}}, nil
	}
	return answer, err
}

func conditionOf(crd *unstructured.Unstructured, kind string) (found metav1.Condition) {
	for _, condition := range object.MapsAt(crd.Object, "status", "conditions") {
		if condition["type"] == kind {
			found.Status = metav1.ConditionStatus(object.TextAt(condition, "status"))
			found.Message = object.TextAt(condition, "message")
		}
	}
	return found
}

// patience is the time that a cluster may take to start, or to establish a CRD.
const patience = time.Minute

// until waits until check returns nil. After a timeout it returns the last error of
// check.
func until(ctx context.Context, event string, check func(context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(ctx, 50*time.Millisecond, patience, true, func(ctx context.Context) (bool, error) {
		last = check(ctx)
		return last == nil, nil
	})
	if err != nil {
		return fmt.Errorf("waiting for %s: %w", event, errors.Join(err, last))
	}
	return nil
}
