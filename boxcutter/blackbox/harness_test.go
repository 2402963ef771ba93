// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/capi-installer/capi-installer/test/controlplane"
	"github.com/go-logr/logr"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/managedcache"
	"pkg.package-operator.run/boxcutter/ownerhandling"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/yaml"
)

func TestMain(m *testing.M) { controlplane.Main(m) }

const (
	fieldOwner     = "engine"
	systemPrefix   = "test.example.com"
	revisionMark   = systemPrefix + "/revision"
	ownersMark     = systemPrefix + "/owners"
	managedByLabel = "app.kubernetes.io/managed-by"
)

// patience is how long something that must come may take.
const patience = 30 * time.Second

// owning is a way for objects to have an owner.
type owning struct {
	name string
	// strategy is nil where objects have no owner.
	strategy boxcutter.OwnerStrategy
}

var (
	native     = owning{"native", ownerhandling.NewNative(scheme.Scheme)}
	annotation = owning{"annotation", ownerhandling.NewAnnotation(scheme.Scheme, ownersMark)}
	ownerless  = owning{"ownerless", nil}
)

// eachOwning runs a test for each way of owning, with a bed of its own.
func eachOwning(t *testing.T, test func(b *bed)) {
	t.Helper()
	for _, owning := range []owning{native, annotation, ownerless} {
		t.Run(owning.name, func(t *testing.T) { test(newBed(t, bedOptions{owning: owning})) })
	}
}

// within runs a subtest on the same bed.
func (b *bed) within(name string, test func(b *bed)) {
	b.Helper()
	parent, ok := b.TB.(*testing.T)
	if !ok {
		b.Fatalf("%s: only tests have subtests", name)
	}
	parent.Run(name, func(t *testing.T) {
		inner := *b
		inner.TB = t
		test(&inner)
	})
}

// bedOptions say what a bed is like. The zero value owns nothing.
type bedOptions struct {
	// owning is how its revisions own their objects.
	owning owning
	// engine changes the options of the engine before it is made.
	engine func(*boxcutter.RevisionEngineOptions)
}

// bed is an engine on a real API server, with a namespace of its own. Only what
// the engine and its cache do is counted.
type bed struct {
	testing.TB

	namespace string
	owning    owning
	// user is somebody with all rights, whose requests are not counted.
	user client.Client
	// config, client, cache and mapper are what the engine works with.
	config   *rest.Config
	client   client.Client
	cache    managedcache.TrackingCache
	mapper   meta.RESTMapper
	requests *requests
	// options are those of the engine.
	options boxcutter.RevisionEngineOptions
	engine  *boxcutter.RevisionEngine
}

// newBed makes a bed that ends with the test.
func newBed(t testing.TB, options bedOptions) *bed {
	t.Helper()
	cluster := controlplane.Shared(t)
	b := &bed{TB: t, namespace: cluster.Namespace(t), owning: options.owning, requests: &requests{}}
	var err error
	b.user, err = client.New(cluster.Config, client.Options{Scheme: scheme.Scheme})
	b.must(err)
	b.connect(cluster.Config)
	b.options = b.engineOptions()
	if options.engine != nil {
		options.engine(&b.options)
	}
	b.restart()
	return b
}

// connect makes what talks to the API server and is counted.
func (b *bed) connect(config *rest.Config) {
	b.Helper()
	b.config = rest.CopyConfig(config)
	b.config.Wrap(b.requests.count)
	http, err := rest.HTTPClientFor(b.config)
	b.must(err)
	b.mapper, err = apiutil.NewDynamicRESTMapper(b.config, http)
	b.must(err)
	b.client, err = client.New(b.config, client.Options{HTTPClient: http, Scheme: scheme.Scheme, Mapper: b.mapper})
	b.must(err)
	b.cache, err = managedcache.NewTrackingCache(logr.Discard(), b.config, cache.Options{
		HTTPClient: http, Scheme: scheme.Scheme, Mapper: b.mapper,
		DefaultLabelSelector: labels.SelectorFromSet(labels.Set{managedByLabel: b.namespace}),
	})
	b.must(err)
	b.run(b.cache)
}

// run runs a cache until the test ends.
func (b *bed) run(cache cache.Cache) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := cache.Start(ctx); err != nil {
			b.Errorf("running the cache: %v", err)
		}
	})
	b.Cleanup(func() { cancel(); running.Wait() })
	if !cache.WaitForCacheSync(b.Context()) {
		b.Fatal("the cache does not start")
	}
}

func (b *bed) engineOptions() boxcutter.RevisionEngineOptions {
	b.Helper()
	schemas, err := discovery.NewDiscoveryClientForConfig(b.config)
	b.must(err)
	return boxcutter.RevisionEngineOptions{
		Scheme: scheme.Scheme, FieldOwner: fieldOwner, SystemPrefix: systemPrefix, ManagedBy: b.namespace,
		DiscoveryClient: schemas, RestMapper: b.mapper,
		Writer: b.client, Reader: b.cache, UnfilteredReader: b.client,
	}
}

// restart replaces the engine by a new one that remembers nothing.
func (b *bed) restart() {
	b.Helper()
	var err error
	b.engine, err = boxcutter.NewRevisionEngine(b.options)
	b.must(err)
}

// must ends the test if there is an error.
func (b *bed) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// eventually waits until a condition holds.
func (b *bed) eventually(what string, holds func() bool) {
	b.Helper()
	for deadline := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("still not true after %s: %s", patience, what)
		}
	}
}

// object reads an object of the bed's namespace from YAML. The text is a format
// whose arguments are given.
func (b *bed) object(text string, arguments ...any) *unstructured.Unstructured {
	b.Helper()
	out := &unstructured.Unstructured{}
	b.must(yaml.Unmarshal(fmt.Appendf(nil, text, arguments...), &out.Object))
	if mapping, err := b.mapper.RESTMapping(out.GroupVersionKind().GroupKind()); err == nil &&
		mapping.Scope.Name() == meta.RESTScopeNameNamespace && out.GetNamespace() == "" {
		out.SetNamespace(b.namespace)
	}
	return out
}

// configMap is a config map of the bed's namespace.
func (b *bed) configMap(name, color string) *unstructured.Unstructured {
	return b.object(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {color: %s}}`, name, color)
}

// owner creates an object that can own others of the namespace, nil where
// objects have no owner.
func (b *bed) owner(name string) client.Object {
	b.Helper()
	if b.owning.strategy == nil {
		return nil
	}
	return b.anybody(name)
}

// anybody creates an object that may own something, whatever way the bed owns.
func (b *bed) anybody(name string) client.Object {
	b.Helper()
	out := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	b.must(b.user.Create(b.Context(), out))
	out.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}
	return out
}

// revision makes a revision of an owner and its siblings; nil is no owner.
func (b *bed) revision(number int64, owner client.Object, siblings []client.Object, phases ...boxcutter.Phase) boxcutter.RevisionBuilder {
	name := fmt.Sprintf("revision-%d", number)
	if owner == nil {
		return boxcutter.NewRevision(name, number, phases)
	}
	return boxcutter.NewRevisionWithOwnerAndSiblings(name, number, phases, owner, b.owning.strategy, siblings)
}

// phase makes a phase.
func phase(name string, objects ...*unstructured.Unstructured) boxcutter.PhaseBuilder {
	all := make([]client.Object, len(objects))
	for i := range objects {
		all[i] = objects[i]
	}
	return boxcutter.NewPhase(name, all)
}

// reconcile takes one step, which must not fail, and asks about nothing that it
// does not write.
func (b *bed) reconcile(revision boxcutter.Revision, opts ...boxcutter.RevisionReconcileOption) machinery.RevisionResult {
	b.Helper()
	result, err := b.engine.Reconcile(b.Context(), revision, append(opts, boxcutter.WithoutDryRunOfUnchanged())...)
	b.must(err)
	return result
}

// teardown takes one step, which must not fail.
func (b *bed) teardown(revision boxcutter.Revision, opts ...boxcutter.RevisionTeardownOption) machinery.RevisionTeardownResult {
	b.Helper()
	result, err := b.engine.Teardown(b.Context(), revision, opts...)
	b.must(err)
	return result
}

// install reconciles until the revision is complete, and has the cache catch up.
func (b *bed) install(revision boxcutter.Revision, opts ...boxcutter.RevisionReconcileOption) {
	b.Helper()
	b.eventually("the revision is complete", func() bool { return b.reconcile(revision, opts...).IsComplete() })
	b.catchUp(revision)
}

// catchUp waits until the cache shows the objects of revisions as they are now.
func (b *bed) catchUp(revisions ...boxcutter.Revision) {
	b.Helper()
	for _, revision := range revisions {
		for _, phase := range revision.GetPhases() {
			for _, object := range phase.GetObjects() {
				b.catchUpWith(object)
			}
		}
	}
}

func (b *bed) catchUpWith(object client.Object) {
	b.Helper()
	b.eventually(fmt.Sprintf("the cache shows %s as it is", object.GetName()), func() bool {
		shown, actual := b.read(b.cache, object), b.get(object)
		if actual == nil || actual.GetLabels()[managedByLabel] != b.namespace {
			return shown == nil
		}
		return shown != nil && shown.GetResourceVersion() == actual.GetResourceVersion()
	})
}

// get returns an object as it is now, nil when it is not there.
func (b *bed) get(object client.Object) *unstructured.Unstructured {
	b.Helper()
	return b.read(b.user, object)
}

func (b *bed) read(reader client.Reader, object client.Object) *unstructured.Unstructured {
	b.Helper()
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	err := reader.Get(b.Context(), client.ObjectKeyFromObject(object), out)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return nil
	}
	b.must(err)
	return out
}

// create creates an object as the user.
func (b *bed) create(object client.Object) {
	b.Helper()
	copied, _ := object.DeepCopyObject().(client.Object)
	b.must(b.user.Create(b.Context(), copied, client.FieldOwner("user")))
}

// edit changes an object as the user, with a merge patch, and has the cache catch up.
func (b *bed) edit(object client.Object, patch string) {
	b.Helper()
	copied, _ := object.DeepCopyObject().(client.Object)
	b.must(b.user.Patch(b.Context(), copied, client.RawPatch(apitypes.MergePatchType, []byte(patch)), client.FieldOwner("user")))
	b.catchUpWith(object)
}

// delete deletes an object as the user, and waits until it is gone.
func (b *bed) delete(object client.Object) {
	b.Helper()
	copied, _ := object.DeepCopyObject().(client.Object)
	b.must(b.user.Delete(b.Context(), copied))
	b.eventually(object.GetName()+" is gone", func() bool { return b.get(object) == nil })
	b.catchUpWith(object)
}

// actions are what was done with the objects of a result, phase by phase.
func actions(result machinery.RevisionResult) []machinery.Action {
	var out []machinery.Action
	for _, phase := range result.GetPhases() {
		for _, object := range phase.GetObjects() {
			out = append(out, object.Action())
		}
	}
	return out
}

// acts checks what was done with the objects.
func (b *bed) acts(result machinery.RevisionResult, want ...machinery.Action) {
	b.Helper()
	if got := actions(result); !slices.Equal(got, want) {
		b.Errorf("actions are %v, want %v\n%s", got, want, result)
	}
}
