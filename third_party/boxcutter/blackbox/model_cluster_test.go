// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/go-logr/logr"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/managedcache"
	"pkg.package-operator.run/boxcutter/probing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// modelWorld is the API server of a sequence.
type modelWorld struct {
	// user has all permissions; its requests are not recorded.
	user client.Client
	// writer is the engine's; its requests are recorded.
	writer client.Client
	// schemas and mapper are the engine's.
	schemas discovery.OpenAPIV3SchemaInterface
	mapper  meta.RESTMapper
	// newCache returns a cache and the function that stops it; nil means that the engine reads from the API server.
	newCache func(managedBy string) (client.Reader, func(), error)
	// exact is set if only the sequence changes objects.
	exact bool

	// writes are the writes and dry runs of the engine.
	writes modelNotes
	// deleting is called with each object that the engine is about to delete.
	deleting func(*unstructured.Unstructured)
}

// modelScheme has only the kinds of sequences in memory, because the fake API server iterates over all of them at each
// write.
var modelScheme = func() *runtime.Scheme {
	out := runtime.NewScheme()
	out.AddKnownTypes(corev1.SchemeGroupVersion, &corev1.ConfigMap{}, &corev1.ConfigMapList{})
	metav1.AddToGroupVersion(out, corev1.SchemeGroupVersion)
	out.AddKnownTypes(appsv1.SchemeGroupVersion, &appsv1.Deployment{}, &appsv1.DeploymentList{})
	metav1.AddToGroupVersion(out, appsv1.SchemeGroupVersion)
	return out
}()

// newModelFake returns an API server in memory.
func newModelFake() *modelWorld {
	w := &modelWorld{schemas: modelSchemas{}, exact: true}
	c := fake.NewClientBuilder().WithScheme(modelScheme).WithReturnManagedFields().Build()
	w.user, w.mapper = c, c.RESTMapper()
	w.writer = w.watch(interceptor.NewClient(c, interceptor.Funcs{Create: modelCreate}))
	return w
}

// modelCreate creates an object as an API server does, unlike the fake one: it rejects the dry run of an existing
// object, and its response has managed fields.
func modelCreate(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
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

// newModelReal returns a real API server.
func newModelReal(config *rest.Config) (*modelWorld, error) {
	http, err := rest.HTTPClientFor(config)
	if err != nil {
		return nil, err
	}
	w := &modelWorld{}
	if w.mapper, err = apiutil.NewDynamicRESTMapper(config, http); err != nil {
		return nil, err
	}
	c, err := client.NewWithWatch(config, client.Options{HTTPClient: http, Scheme: scheme.Scheme, Mapper: w.mapper})
	if err != nil {
		return nil, err
	}
	w.user, w.writer = c, w.watch(c)
	w.newCache = func(managedBy string) (client.Reader, func(), error) {
		return modelCache(config, cache.Options{
			HTTPClient: http, Scheme: scheme.Scheme, Mapper: w.mapper,
			DefaultLabelSelector: labels.SelectorFromSet(labels.Set{managedByLabel: managedBy}),
		})
	}
	w.schemas, err = discovery.NewDiscoveryClientForConfigAndClient(config, http)
	return w, err
}

func modelCache(config *rest.Config, options cache.Options) (client.Reader, func(), error) {
	tracking, err := managedcache.NewTrackingCache(logr.Discard(), config, options)
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = tracking.Start(ctx) }) // ends with the context
	tracking.WaitForCacheSync(ctx)
	return tracking, func() { cancel(); running.Wait() }, nil
}

// modelDryRun is the name of recorded dry runs.
const modelDryRun = "dry-run"

// watch records the writes of a client.
func (w *modelWorld) watch(c client.WithWatch) client.Client {
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			w.note("create", obj)
			return c.Create(ctx, obj, opts...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			verb := "patch"
			if len((&client.PatchOptions{}).ApplyOptions(opts).DryRun) > 0 {
				verb = modelDryRun
			}
			w.note(verb, obj)
			return c.Patch(ctx, obj, patch, opts...)
		},
		Update: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.UpdateOption) error {
			w.note("update", obj)
			return c.Update(ctx, obj, opts...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, obj runtime.ApplyConfiguration, opts ...client.ApplyOption) error {
			w.note("apply", obj)
			return c.Apply(ctx, obj, opts...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, obj client.Object, opts ...client.DeleteOption) error {
			w.note("delete", obj)
			if actual, err := modelRead(ctx, c, obj); err == nil && actual != nil {
				w.deleting(actual)
			}
			return c.Delete(ctx, obj, opts...)
		},
	})
}

func (w *modelWorld) note(verb string, obj any) {
	if named, ok := obj.(interface{ GetName() string }); ok {
		verb += " " + named.GetName()
	}
	w.writes.add(verb)
}

// modelNotes are texts that several goroutines can add.
type modelNotes struct {
	mu    sync.Mutex
	texts []string
}

func (n *modelNotes) add(text string) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.texts = append(n.texts, text)
}

// take returns the records since the last call.
func (n *modelNotes) take() []string {
	n.mu.Lock()
	defer n.mu.Unlock()
	out := n.texts
	n.texts = nil
	return out
}

// modelRead returns an object from a reader; nil if it does not exist.
func modelRead(ctx context.Context, reader client.Reader, like client.Object) (*unstructured.Unstructured, error) {
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(like.GetObjectKind().GroupVersionKind())
	err := reader.Get(ctx, client.ObjectKeyFromObject(like), out)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil, nil
	}
	return out, err
}

// modelSlot is an object that revisions can contain.
type modelSlot string

const (
	modelA          modelSlot = "a"
	modelB          modelSlot = "b"
	modelC          modelSlot = "c"
	modelDeployment modelSlot = "deployment"
	modelCRD        modelSlot = "crd"
	modelInstance   modelSlot = "instance"
)

// modelVariants is the number of variants of a desired object.
const modelVariants = 3

// modelByUser reports whether a value was written by a user.
func modelByUser(value string) bool { return strings.HasPrefix(value, "user") }

// modelSequence names the objects of a sequence.
type modelSequence struct {
	namespace string
	// number distinguishes sequences in the same API server.
	number int
}

func (s modelSequence) managedBy() string { return fmt.Sprintf("model-%s-%d", s.namespace, s.number) }
func (s modelSequence) group() string     { return s.managedBy() + ".example.com" }

// object returns the desired object of a variant, from 1.
func (s modelSequence) object(slot modelSlot, variant int) *unstructured.Unstructured {
	content := s.content(slot, variant)
	out := &unstructured.Unstructured{Object: content}
	if slot != modelCRD {
		out.SetNamespace(s.namespace)
		out.SetName(fmt.Sprintf("s%d-%s", s.number, slot))
	}
	if variant != modelVariants {
		out.SetLabels(map[string]string{"tier": fmt.Sprintf("tier-%d", variant)})
	}
	return out
}

func (s modelSequence) content(slot modelSlot, variant int) map[string]any {
	switch slot {
	case modelDeployment:
		return map[string]any{"apiVersion": "apps/v1", "kind": "Deployment", "spec": map[string]any{
			"replicas": int64(0), "revisionHistoryLimit": int64(variant),
			"selector": map[string]any{"matchLabels": map[string]any{"app": "model"}},
			"template": map[string]any{
				"metadata": map[string]any{"labels": map[string]any{"app": "model"}},
				"spec":     map[string]any{"containers": []any{map[string]any{"name": "main", "image": fmt.Sprintf("main:%d", variant)}}},
			},
		}}
	case modelCRD:
		return map[string]any{
			"apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
			"metadata": map[string]any{"name": "widgets." + s.group()},
			"spec": map[string]any{
				"group": s.group(), "scope": "Namespaced",
				"names": map[string]any{"plural": "widgets", "singular": "widget", "kind": "Widget", "listKind": "WidgetList"},
				"versions": []any{map[string]any{
					"name": "v1", "served": true, "storage": true,
					"schema": map[string]any{"openAPIV3Schema": map[string]any{
						"type": "object", "description": fmt.Sprintf("Variant %d.", variant),
						"properties": map[string]any{"data": map[string]any{
							"type": "object", "additionalProperties": map[string]any{"type": "string"},
						}},
					}},
				}},
			},
		}
	case modelInstance:
		return map[string]any{"apiVersion": s.group() + "/v1", "kind": "Widget", "data": modelData(variant)}
	default:
		return map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": modelData(variant)}
	}
}

func modelData(variant int) map[string]any {
	return []map[string]any{
		{"color": "red"}, {"color": "blue", "size": "2"}, {"shape": "round"},
	}[variant-1]
}

// edit returns a patch that changes a desired field.
func (s modelSlot) edit(value string) string {
	switch s {
	case modelDeployment:
		return `{"spec": {"revisionHistoryLimit": 9}}`
	case modelCRD:
		return fmt.Sprintf(`{"metadata": {"labels": {"tier": %q}}}`, value)
	default:
		return fmt.Sprintf(`{"data": {"color": %q}}`, value)
	}
}

// modelRevision is a revision of a sequence.
type modelRevision struct {
	number int64
	owner  client.Object // nil for ownerless ones
	// phases are the slots of each phase.
	phases [][]modelSlot
	// variants are the desired variants.
	variants map[modelSlot]int
	// tornDown is set when a teardown has begun.
	tornDown bool
}

func (r *modelRevision) uid() string {
	if r.owner == nil {
		return ""
	}
	return string(r.owner.GetUID())
}

// phaseOf returns the phase of a slot; -1 without phase.
func (r *modelRevision) phaseOf(slot modelSlot) int {
	return slices.IndexFunc(r.phases, func(phase []modelSlot) bool { return slices.Contains(phase, slot) })
}

// modelPatch changes an object as the user. how determines the entry of the managed fields.
func modelPatch(ctx context.Context, c client.Client, obj *unstructured.Unstructured, patch string) error {
	return c.Patch(ctx, obj.DeepCopy(), client.RawPatch(apitypes.MergePatchType, []byte(patch)), client.FieldOwner("user"))
}

// modelProbe is complete for a CRD that serves its kind, and for all other objects.
var modelProbe = boxcutter.WithProbe(boxcutter.ProgressProbeType, &probing.GroupKindSelector{
	GroupKind: schema.GroupKind{Group: "apiextensions.k8s.io", Kind: "CustomResourceDefinition"},
	Prober:    &probing.ConditionProbe{Type: "Established", Status: "True"},
})
