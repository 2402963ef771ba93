// SPDX-License-Identifier: Apache-2.0

package boxcutter_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// schemas is a fake discovery client.
type schemas struct{}

func (schemas) OpenAPIV3() openapi.Client { return openapitest.NewEmbeddedFileClient() }

// server is an API server in memory. It counts writes, including dry runs.
type server struct {
	client.Client
	writes int
}

func newServer() *server {
	s := &server{}
	s.Client = fake.NewClientBuilder().WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, next client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			s.writes++
			return next.Create(ctx, obj, opts...)
		},
		Apply: func(ctx context.Context, next client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			s.writes++
			return next.Apply(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, next client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			s.writes++
			return next.Patch(ctx, obj, patch, opts...)
		},
	}).Build()
	return s
}

func engineOptions(c client.Client) boxcutter.RevisionEngineOptions {
	return boxcutter.RevisionEngineOptions{
		Scheme:          c.Scheme(),
		FieldOwner:      "example",
		SystemPrefix:    "example.com",
		DiscoveryClient: schemas{},
		RestMapper:      meta.NewDefaultRESTMapper(nil),
		Writer:          c,
		Reader:          c,
	}
}

func configMap(name string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1",
		"kind":       "ConfigMap",
		"metadata":   map[string]any{"name": name, "namespace": "default"},
		"data":       map[string]any{"color": "red"},
	}}
}

func ExampleNewRevisionEngine() {
	ctx := context.Background()
	c := newServer()
	engine, err := boxcutter.NewRevisionEngine(boxcutter.RevisionEngineOptions{
		Scheme:          c.Scheme(),
		FieldOwner:      "example",
		SystemPrefix:    "example.com",
		DiscoveryClient: schemas{},
		RestMapper:      c.RESTMapper(),
		Writer:          c,
		Reader:          c,
	})
	if err != nil {
		panic(err)
	}
	result, err := engine.Reconcile(ctx, boxcutter.NewRevision("first", 1, []boxcutter.Phase{
		boxcutter.NewPhase("settings", []client.Object{configMap("settings")}),
	}))
	if err != nil {
		panic(err)
	}
	fmt.Print(result)
	// Output:
	// Revision
	// Complete: true
	// In Transition: false
	// Phases:
	// - Phase "settings"
	//   Complete: true
	//   In Transition: false
	//   Objects:
	//   - Object ConfigMap.v1 default/settings
	//     Action: "Created"
}

func TestRevisionEngineOptions_NamesAllMissing(t *testing.T) {
	_, err := boxcutter.NewRevisionEngine(boxcutter.RevisionEngineOptions{Scheme: runtime.NewScheme()})
	missing, ok := errors.AsType[boxcutter.RevisionEngineOptionsError](err)
	const want = "options of the revision engine: FieldOwner, SystemPrefix, DiscoveryClient, RestMapper, Writer, Reader must be set"
	if !ok || missing.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// Both engines check objects with the validator of the options.
func TestNewRevisionEngine_UsesPhaseValidator(t *testing.T) {
	asked := newServer()
	options := engineOptions(newServer())
	options.PhaseValidator = validation.NewClusterPhaseValidator(options.RestMapper, asked)

	revisions, err := boxcutter.NewRevisionEngine(options)
	if err != nil {
		t.Fatal(err)
	}
	phase := func(name string) boxcutter.Phase {
		return boxcutter.NewPhase("main", []client.Object{configMap(name)})
	}
	if _, err := revisions.Reconcile(t.Context(), boxcutter.NewRevision("one", 1, []boxcutter.Phase{phase("a")})); err != nil || asked.writes != 1 {
		t.Errorf("requests of the validator: %d, error: %v", asked.writes, err)
	}
	phases, err := boxcutter.NewPhaseEngine(options)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := phases.Reconcile(t.Context(), 1, phase("b")); err != nil || asked.writes != 2 {
		t.Errorf("requests of the validator: %d, error: %v", asked.writes, err)
	}
}
