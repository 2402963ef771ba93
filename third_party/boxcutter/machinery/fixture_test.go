// SPDX-License-Identifier: Apache-2.0

package machinery_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/openapi/openapitest"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/ownerhandling"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"
)

const (
	fieldOwner   = "engine"
	systemPrefix = "test.example.com"
	managedBy    = "app.kubernetes.io/managed-by"
	revisionMark = systemPrefix + "/revision"
)

// realSchemas serves the OpenAPI documents of a real API server.
type realSchemas struct{}

func (realSchemas) OpenAPIV3() openapi.Client { return openapitest.NewEmbeddedFileClient() }

var testScheme = func() *runtime.Scheme {
	scheme := runtime.NewScheme()
	if err := clientgoscheme.AddToScheme(scheme); err != nil {
		panic(err)
	}
	return scheme
}()

// The comparator is shared by all tests, as by all objects of an engine, because reading a schema takes time.
var comparator = machinery.NewComparator(realSchemas{}, testScheme, fieldOwner)

var owners = ownerhandling.NewNative(testScheme)

// cluster is an API server in memory that records all writes.
type cluster struct {
	client.Client

	mu     sync.Mutex
	writes []string
	// before is called before each write; its error fails the write.
	before func(verb string, obj any) error
	// afterApply can change the applied object and the response.
	afterApply func(ctx context.Context, c client.Client, obj runtime.ApplyConfiguration) error
}

func newCluster(t *testing.T, objects ...client.Object) *cluster {
	t.Helper()
	c := &cluster{}
	c.Client = fake.NewClientBuilder().WithScheme(testScheme).WithReturnManagedFields().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, next client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			options := (&client.CreateOptions{}).ApplyOptions(opts)
			return c.note(options.DryRun, "create", obj, func() error { return create(ctx, next, obj, opts) })
		},
		Delete: func(ctx context.Context, next client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			return c.note(nil, "delete", obj, func() error { return next.Delete(ctx, obj, opts...) })
		},
		Patch: func(ctx context.Context, next client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			options := (&client.PatchOptions{}).ApplyOptions(opts)
			switch patch.Type() {
			case apitypes.ApplyPatchType:
				return c.note(options.DryRun, "force", obj, func() error { return c.dryRun(ctx, next, obj, options) })
			case apitypes.JSONPatchType:
				return c.note(nil, "migrate", obj, func() error { return next.Patch(ctx, obj, patch, opts...) })
			default:
				return c.note(nil, "patch", obj, func() error { return next.Patch(ctx, obj, patch, opts...) })
			}
		},
		Apply: func(ctx context.Context, next client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			verb := "apply"
			if force := (&client.ApplyOptions{}).ApplyOptions(opts).Force; force != nil && *force {
				verb = "force"
			}
			return c.note(nil, verb, obj, func() error {
				if err := next.Apply(ctx, obj, opts...); err != nil || c.afterApply == nil {
					return err
				}
				return c.afterApply(ctx, next, obj)
			})
		},
	}).Build()
	for _, object := range objects {
		c.create(t, object)
	}
	c.writes = nil
	return c
}

// create behaves like an API server in contrast to the fake: a dry run fails too if the object exists, and the response
// has managed fields.
func create(ctx context.Context, c client.Client, obj client.Object, opts []client.CreateOption) error {
	there := &unstructured.Unstructured{}
	there.SetGroupVersionKind(obj.GetObjectKind().GroupVersionKind())
	key := client.ObjectKeyFromObject(obj)
	if err := c.Get(ctx, key, there); err == nil {
		return apierrors.NewAlreadyExists(schema.GroupResource{Resource: there.GetKind()}, key.Name)
	}
	if err := c.Create(ctx, obj, opts...); err != nil || len((&client.CreateOptions{}).ApplyOptions(opts).DryRun) > 0 {
		return err
	}
	return c.Get(ctx, key, obj)
}

// dryRun applies an object in a new cluster that has only a copy of the existing object: the fake does not return the result
// of a dry run.
func (c *cluster) dryRun(ctx context.Context, next client.Client, obj client.Object, options *client.PatchOptions) error {
	desired, ok := obj.(*unstructured.Unstructured)
	if !ok || len(options.DryRun) == 0 || options.Force == nil || !*options.Force {
		return fmt.Errorf("patch of %T without a dry run or without force", obj)
	}
	there := desired.DeepCopy()
	if err := next.Get(ctx, client.ObjectKeyFromObject(there), there); err != nil {
		return err
	}
	copied := fake.NewClientBuilder().WithScheme(testScheme).WithReturnManagedFields().WithObjects(there).Build()
	config := client.ApplyConfigurationFromUnstructured(desired)
	if err := copied.Apply(ctx, config, client.FieldOwner(options.FieldManager), client.ForceOwnership); err != nil || c.afterApply == nil {
		return err
	}
	return c.afterApply(ctx, copied, config)
}

func (c *cluster) note(dryRun []string, verb string, obj any, write func() error) error {
	if len(dryRun) > 0 {
		verb = "dry " + verb
	}
	c.mu.Lock()
	c.writes = append(c.writes, verb)
	c.mu.Unlock()
	if c.before != nil {
		if err := c.before(verb, obj); err != nil {
			return err
		}
	}
	return write()
}

// create creates an object as another field manager.
func (c *cluster) create(t *testing.T, object client.Object) {
	t.Helper()
	copied, _ := object.DeepCopyObject().(client.Object)
	must(t, c.Create(t.Context(), copied, client.FieldOwner("other")))
}

// edit changes an object as another field manager, with a merge patch.
func (c *cluster) edit(t *testing.T, object client.Object, patch string) {
	t.Helper()
	copied, _ := object.DeepCopyObject().(client.Object)
	err := c.Patch(t.Context(), copied, client.RawPatch(apitypes.MergePatchType, []byte(patch)), client.FieldOwner("other"))
	must(t, err)
}

// get returns the current object; nil if it does not exist.
func (c *cluster) get(t *testing.T, object client.Object) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	err := c.Get(t.Context(), client.ObjectKeyFromObject(object), out)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	if err != nil {
		return nil
	}
	return out
}

// took returns the writes since the last call.
func (c *cluster) took() []string {
	out := slices.Clone(c.writes)
	c.writes = nil
	return out
}

// nothing is a reader that never returns an object, like a cache whose filter matches nothing.
type nothing struct{ client.Reader }

func (nothing) Get(_ context.Context, key client.ObjectKey, obj client.Object, _ ...client.GetOption) error {
	return notFound(obj, key)
}

func (c *cluster) engine() *machinery.ObjectEngine { return c.engineReading(c.Client, nil) }

func (c *cluster) engineReading(reader, unfiltered client.Reader) *machinery.ObjectEngine {
	return machinery.NewObjectEngine(testScheme, reader, c.Client, comparator, fieldOwner, systemPrefix, "tests", unfiltered)
}

// reconcile reconciles once, without error, and returns the action.
func (c *cluster) reconcile(t *testing.T, revision int64, object machinery.Object, opts ...types.ObjectReconcileOption) machinery.ObjectResult {
	t.Helper()
	result, err := c.engine().Reconcile(t.Context(), revision, object, opts...)
	must(t, err)
	return result
}

func object(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	data, err := yaml.YAMLToJSON([]byte(text))
	must(t, err)
	out := &unstructured.Unstructured{}
	must(t, out.UnmarshalJSON(data))
	return out
}

func configMap(t *testing.T) *unstructured.Unstructured {
	t.Helper()
	return object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: settings, namespace: default}, data: {color: red, size: "3"}}`)
}

// owner is an owner in the namespace of the objects.
func owner(name string) *corev1.Secret {
	return &corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, UID: apitypes.UID("uid-" + name)},
	}
}

// ownerOption is the option for an owner.
type ownerOption interface {
	types.ObjectReconcileOption
	types.ObjectTeardownOption
}

func ownedBy(name string) ownerOption {
	return types.WithOwner(owner(name), owners)
}

func siblingOf(names ...string) types.ObjectReconcileOption {
	var siblings []client.Object
	for _, name := range names {
		siblings = append(siblings, owner(name))
	}
	return types.WithSiblingOwners(siblings)
}
