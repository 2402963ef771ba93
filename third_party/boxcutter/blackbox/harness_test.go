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
	"github.com/google/go-cmp/cmp"
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
	"pkg.package-operator.run/boxcutter/validation"
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

// waitTimeout is the timeout of each wait.
const waitTimeout = 30 * time.Second

// ownership is a way for objects to have an owner.
type ownership struct {
	name string
	// strategy is nil if objects have no owner.
	strategy boxcutter.OwnerStrategy
}

var (
	native     = ownership{"native", ownerhandling.NewNative(scheme.Scheme)}
	annotation = ownership{"annotation", ownerhandling.NewAnnotation(scheme.Scheme, ownersMark)}
	ownerless  = ownership{"ownerless", nil}
)

// eachOwnership runs a test for each way of owning, each with its own env.
func eachOwnership(t *testing.T, test func(b *env)) {
	t.Helper()
	for _, ownership := range []ownership{native, annotation, ownerless} {
		t.Run(ownership.name, func(t *testing.T) { test(newEnv(t, envOptions{ownership: ownership})) })
	}
}

// eachOwner runs a test for each strategy with an owner. Without an owner, a lower
// revision number takes objects back.
func eachOwner(t *testing.T, test func(b *env)) {
	t.Helper()
	for _, ownership := range []ownership{native, annotation} {
		t.Run(ownership.name, func(t *testing.T) { test(newEnv(t, envOptions{ownership: ownership})) })
	}
}

// within runs a subtest on the same env.
func (b *env) within(name string, test func(b *env)) {
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

// envOptions are the options of an env. The zero value has no owner.
type envOptions struct {
	// owning is how its revisions own their objects.
	ownership ownership
	// engine changes the options of the engine before its creation.
	engine func(*boxcutter.RevisionEngineOptions)
}

// env is an engine on a real API server, with its own namespace. It counts only the requests of the engine and its
// cache.
type env struct {
	testing.TB

	namespace string
	ownership ownership
	// user is an administrator, whose requests are not counted.
	user client.Client
	// config, client, cache and mapper are the engine's.
	config   *rest.Config
	client   client.Client
	cache    managedcache.TrackingCache
	mapper   meta.RESTMapper
	requests *requests
	// options are the engine's.
	options boxcutter.RevisionEngineOptions
	engine  *boxcutter.RevisionEngine
}

// newEnv returns an env for the duration of the test.
func newEnv(t testing.TB, options envOptions) *env {
	t.Helper()
	cluster := controlplane.Shared(t)
	b := &env{TB: t, namespace: cluster.Namespace(t), ownership: options.ownership, requests: &requests{}}
	var err error
	b.user, err = client.New(cluster.Config, client.Options{Scheme: scheme.Scheme})
	b.must(err)
	b.connect(cluster.Config)
	b.options = b.engineOptions()
	if options.engine != nil {
		options.engine(&b.options)
	}
	if b.options.PhaseValidator == nil {
		b.options.PhaseValidator = validation.NewClusterPhaseValidator(b.mapper, b.options.Writer)
	}
	b.restart()
	return b
}

// connect creates the clients whose requests are counted.
func (b *env) connect(config *rest.Config) {
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
func (b *env) run(cache cache.Cache) {
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := cache.Start(ctx); err != nil {
			b.Errorf("running the cache: %v", err)
		}
	})
	b.Cleanup(func() { cancel(); running.Wait() })
	if !cache.WaitForCacheSync(b.Context()) {
		b.Fatal("the cache did not start")
	}
}

func (b *env) engineOptions() boxcutter.RevisionEngineOptions {
	b.Helper()
	schemas, err := discovery.NewDiscoveryClientForConfig(b.config)
	b.must(err)
	return boxcutter.RevisionEngineOptions{
		Scheme: scheme.Scheme, FieldOwner: fieldOwner, SystemPrefix: systemPrefix, ManagedBy: b.namespace,
		DiscoveryClient: schemas, RestMapper: b.mapper,
		Writer: b.client, Reader: b.cache, UnfilteredReader: b.client,
	}
}

// restart replaces the engine by a new one with empty caches.
func (b *env) restart() {
	b.Helper()
	var err error
	b.engine, err = boxcutter.NewRevisionEngine(b.options)
	b.must(err)
}

// must ends the test at an error.
func (b *env) must(err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}

// eventually waits for a condition.
func (b *env) eventually(what string, holds func() bool) {
	b.Helper()
	for deadline := time.Now().Add(waitTimeout); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			b.Fatalf("still not true after %s: %s", waitTimeout, what)
		}
	}
}

// object parses an object of the env's namespace from YAML, after formatting it with the arguments.
func (b *env) object(text string, arguments ...any) *unstructured.Unstructured {
	b.Helper()
	out := &unstructured.Unstructured{}
	b.must(yaml.Unmarshal(fmt.Appendf(nil, text, arguments...), &out.Object))
	if mapping, err := b.mapper.RESTMapping(out.GroupVersionKind().GroupKind()); err == nil &&
		mapping.Scope.Name() == meta.RESTScopeNameNamespace && out.GetNamespace() == "" {
		out.SetNamespace(b.namespace)
	}
	return out
}

// configMap returns a config map of the env's namespace.
func (b *env) configMap(name, color string) *unstructured.Unstructured {
	return b.object(`{apiVersion: v1, kind: ConfigMap, metadata: {name: %s}, data: {color: %s}}`, name, color)
}

// owner creates an object that can own others of the namespace; nil if objects have no owner.
func (b *env) owner(name string) client.Object {
	b.Helper()
	if b.ownership.strategy == nil {
		return nil
	}
	return b.createOwner(name)
}

// createOwner creates an owner even if objects of the env have none.
func (b *env) createOwner(name string) client.Object {
	b.Helper()
	out := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: b.namespace, Name: name}}
	b.must(b.user.Create(b.Context(), out))
	out.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}
	return out
}

// revision returns a revision of an owner and its siblings; nil means no owner.
func (b *env) revision(number int64, owner client.Object, siblings []client.Object, phases ...boxcutter.Phase) boxcutter.RevisionBuilder {
	name := fmt.Sprintf("revision-%d", number)
	if owner == nil {
		return boxcutter.NewRevision(name, number, phases)
	}
	return boxcutter.NewRevisionWithOwnerAndSiblings(name, number, phases, owner, b.ownership.strategy, siblings)
}

// phase returns a phase.
func phase(name string, objects ...*unstructured.Unstructured) boxcutter.PhaseBuilder {
	all := make([]client.Object, len(objects))
	for i := range objects {
		all[i] = objects[i]
	}
	return boxcutter.NewPhase(name, all)
}

// reconcile reconciles once, without error. Only objects that are written get a dry run.
func (b *env) reconcile(revision boxcutter.Revision, opts ...boxcutter.RevisionReconcileOption) machinery.RevisionResult {
	b.Helper()
	opts = append(opts, boxcutter.WithoutDryRunOfUnchanged())
	result, err := b.engine.Reconcile(b.Context(), revision, opts...)
	for deadline := time.Now().Add(waitTimeout); isTransient(err) && time.Now().Before(deadline); {
		if apierrors.IsConflict(err) {
			b.catchUp(revision)
		}
		result, err = b.engine.Reconcile(b.Context(), revision, opts...)
	}
	b.must(err)
	return result
}

// isTransient reports whether an error ends soon: another controller has written an object concurrently, or the API
// server does not serve a new kind yet.
func isTransient(err error) bool {
	return apierrors.IsConflict(err) || meta.IsNoMatchError(err) || apierrors.IsNotFound(err)
}

// teardown tears down once, without error.
func (b *env) teardown(revision boxcutter.Revision, opts ...boxcutter.RevisionTeardownOption) machinery.RevisionTeardownResult {
	b.Helper()
	result, err := b.engine.Teardown(b.Context(), revision, opts...)
	b.must(err)
	return result
}

// install reconciles until the revision is complete, the Deployment controller has written its status, and the cache is
// current.
func (b *env) install(revision boxcutter.Revision, opts ...boxcutter.RevisionReconcileOption) {
	b.Helper()
	b.eventually("the revision is complete", func() bool { return b.reconcile(revision, opts...).IsComplete() })
	b.awaitDeployments(revision)
	b.catchUp(revision)
}

// awaitDeployments waits until the status of each Deployment is stable.
func (b *env) awaitDeployments(revision boxcutter.Revision) {
	b.Helper()
	for _, phase := range revision.GetPhases() {
		for _, object := range phase.GetObjects() {
			if object.GetObjectKind().GroupVersionKind().Kind != "Deployment" {
				continue
			}
			before := ""
			b.eventually(fmt.Sprintf("Deployment %s is stable", object.GetName()), func() bool {
				last := before
				if now := b.get(object); now != nil {
					before = now.GetResourceVersion()
				}
				time.Sleep(300 * time.Millisecond)
				return last == before
			})
		}
	}
}

// catchUp waits until the cache has the current objects of revisions.
func (b *env) catchUp(revisions ...boxcutter.Revision) {
	b.Helper()
	for _, revision := range revisions {
		for _, phase := range revision.GetPhases() {
			for _, object := range phase.GetObjects() {
				b.catchUpWith(object)
			}
		}
	}
}

func (b *env) catchUpWith(object client.Object) {
	b.Helper()
	b.eventually(fmt.Sprintf("the cache has the current %s", object.GetName()), func() bool {
		shown, actual := b.read(b.cache, object), b.get(object)
		if actual == nil || actual.GetLabels()[managedByLabel] != b.namespace {
			return shown == nil
		}
		return shown != nil && shown.GetResourceVersion() == actual.GetResourceVersion()
	})
}

// get returns the current object; nil if it does not exist.
func (b *env) get(object client.Object) *unstructured.Unstructured {
	b.Helper()
	return b.read(b.user, object)
}

func (b *env) read(reader client.Reader, object client.Object) *unstructured.Unstructured {
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
func (b *env) create(object client.Object) {
	b.Helper()
	copied, _ := object.DeepCopyObject().(client.Object)
	b.must(b.user.Create(b.Context(), copied, client.FieldOwner("user")))
}

// edit changes an object as the user, with a merge patch, and waits until the cache has the change.
func (b *env) edit(object client.Object, patch string) {
	b.Helper()
	copied, _ := object.DeepCopyObject().(client.Object)
	b.must(b.user.Patch(b.Context(), copied, client.RawPatch(apitypes.MergePatchType, []byte(patch)), client.FieldOwner("user")))
	b.catchUpWith(object)
}

// delete deletes an object as the user, and waits until it is gone.
func (b *env) delete(object client.Object) {
	b.Helper()
	copied, _ := object.DeepCopyObject().(client.Object)
	b.must(b.user.Delete(b.Context(), copied))
	b.eventually(object.GetName()+" is gone", func() bool { return b.get(object) == nil })
	b.catchUpWith(object)
}

// actions returns the actions of a result, phase by phase.
func actions(result machinery.RevisionResult) []machinery.Action {
	var out []machinery.Action
	for _, phase := range result.GetPhases() {
		for _, object := range phase.GetObjects() {
			out = append(out, object.Action())
		}
	}
	return out
}

// expectActions checks the actions of a result.
func (b *env) expectActions(result machinery.RevisionResult, want ...machinery.Action) {
	b.Helper()
	if got := actions(result); !slices.Equal(got, want) {
		b.Errorf("actions %v, want %v\n%s", got, want, result)
	}
}

// unchanged checks that an object was not written.
func (b *env) unchanged(before *unstructured.Unstructured) {
	b.Helper()
	if diff := cmp.Diff(before, b.get(before)); diff != "" {
		b.Errorf("the object was changed (-before +after):\n%s", diff)
	}
}

func isOwner(owner client.Object, object *unstructured.Unstructured) bool {
	return native.strategy.(*ownerhandling.OwnerStrategyNative).IsOwner(owner, object) ||
		annotation.strategy.(*ownerhandling.OwnerStrategyAnnotation).IsOwner(owner, object)
}
