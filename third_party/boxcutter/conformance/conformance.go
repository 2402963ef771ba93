// SPDX-License-Identifier: Apache-2.0

// Package conformance checks an implementation of pkg.package-operator.run/boxcutter
// against the contract of the original with a real API server. It uses only names of
// both modules, so that it also runs with the original.
//
// Run runs each case of Cases as a subtest, with the configuration of an API server
// and a factory of engines.
package conformance

import (
	"context"
	"net/http"
	"runtime/debug"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	apitypes "k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/ownerhandling"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
)

// Engine reconciles and tears down revisions.
type Engine interface {
	Reconcile(ctx context.Context, rev types.Revision, opts ...types.RevisionReconcileOption) (machinery.RevisionResult, error)
	Teardown(ctx context.Context, rev types.Revision, opts ...types.RevisionTeardownOption) (machinery.RevisionTeardownResult, error)
}

// Factory returns an engine with the given options.
type Factory func(opts boxcutter.RevisionEngineOptions) (Engine, error)

// Default returns the engine of the boxcutter module that the program is built with.
func Default(opts boxcutter.RevisionEngineOptions) (Engine, error) {
	return boxcutter.NewRevisionEngine(opts)
}

// Case is one case of the contract.
type Case struct {
	// Name is the name of the subtest, "<area>/<behaviour>".
	Name string
	// Run checks the behaviour.
	Run func(t *testing.T, e *Env)
}

// Cases returns all cases, by area.
func Cases() []Case {
	var all []Case
	for _, area := range [][]Case{
		adoptionCases(), rolloutCases(), handoverCases(), pauseCases(), teardownCases(), validationCases(),
		engineCases(), resultCases(), optionCases(), probeCases(), cacheCases(), hashCases(),
	} {
		all = append(all, area...)
	}
	return all
}

// Run runs all cases, each in its own namespace. A case that panics fails, and the others run.
func Run(t *testing.T, config *rest.Config, factory Factory) {
	t.Helper()
	for _, c := range Cases() {
		t.Run(c.Name, func(t *testing.T) {
			defer func() {
				if cause := recover(); cause != nil {
					t.Errorf("panic: %v\n%s", cause, debug.Stack())
				}
			}()
			c.Run(t, newEnv(t, config, factory))
		})
	}
}

const (
	fieldOwner   = "conformance"
	systemPrefix = "conformance.example.com"
	revisionMark = systemPrefix + "/revision"
)

// Env is the environment of a case, with its own engine and namespace.
type Env struct {
	*testing.T

	factory   Factory
	config    *rest.Config
	namespace string
	// user is another client, whose writes are external changes.
	user client.Client
	// client is the client of the engine; its writes are recorded.
	client  client.Client
	mapper  meta.RESTMapper
	writes  *writes
	options boxcutter.RevisionEngineOptions
	engine  Engine
	owners  boxcutter.OwnerStrategy
}

func newEnv(t *testing.T, config *rest.Config, factory Factory) *Env {
	t.Helper()
	e := &Env{T: t, factory: factory, config: config, writes: &writes{}, owners: ownerhandling.NewAnnotation(scheme.Scheme, systemPrefix+"/owners")}
	recorded := rest.CopyConfig(config)
	recorded.QPS = -1
	recorded.Wrap(e.writes.record)
	http, err := rest.HTTPClientFor(recorded)
	e.must(err)
	e.mapper, err = apiutil.NewDynamicRESTMapper(recorded, http)
	e.must(err)
	e.client, err = client.New(recorded, client.Options{HTTPClient: http, Scheme: scheme.Scheme, Mapper: e.mapper})
	e.must(err)
	e.user, err = client.New(config, client.Options{Scheme: scheme.Scheme})
	e.must(err)
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{GenerateName: "conformance-"}}
	e.must(e.user.Create(t.Context(), namespace))
	e.namespace = namespace.Name
	t.Cleanup(func() {
		if err := e.user.Delete(context.Background(), namespace); err != nil {
			t.Errorf("deleting namespace: %v", err)
		}
	})
	schemas, err := discovery.NewDiscoveryClientForConfig(config)
	e.must(err)
	e.options = boxcutter.RevisionEngineOptions{
		Scheme: scheme.Scheme, FieldOwner: fieldOwner, SystemPrefix: systemPrefix, ManagedBy: e.namespace,
		DiscoveryClient: schemas, RestMapper: e.mapper, Writer: e.client, Reader: e.client, UnfilteredReader: e.client,
	}
	e.engine, err = factory(e.options)
	e.must(err)
	e.writes.take()
	return e
}

// writes records the writes of a client, and counts its dry runs.
type writes struct {
	mu      sync.Mutex
	noted   []string
	dryRuns int
}

type roundTripper func(*http.Request) (*http.Response, error)

func (fn roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return fn(r) }

func (w *writes) record(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		w.mu.Lock()
		switch {
		case r.Method == http.MethodGet:
		case r.URL.Query().Get("dryRun") != "":
			w.dryRuns++
		default:
			w.noted = append(w.noted, r.Method+" "+r.URL.Path)
		}
		w.mu.Unlock()
		return next.RoundTrip(r)
	})
}

// take returns the writes since the last call.
func (w *writes) take() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := w.noted
	w.noted, w.dryRuns = nil, 0
	return out
}

func (e *Env) must(err error) {
	e.Helper()
	if err != nil {
		e.Fatal(err)
	}
}

// eventuallyTimeout is the maximum time to wait for a condition.
const eventuallyTimeout = 30 * time.Second

// eventually waits for a condition.
func (e *Env) eventually(condition string, holds func() bool) {
	e.Helper()
	for deadline := time.Now().Add(eventuallyTimeout); !holds(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			e.Fatalf("timed out waiting until %s", condition)
		}
	}
}

// configMap returns a ConfigMap of the namespace.
func (e *Env) configMap(name, color string) *unstructured.Unstructured {
	return &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "v1", "kind": "ConfigMap",
		"metadata": map[string]any{"name": name, "namespace": e.namespace},
		"data":     map[string]any{"color": color},
	}}
}

// owner creates an owner.
func (e *Env) owner(name string) client.Object {
	e.Helper()
	out := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: e.namespace, Name: name}}
	e.must(e.user.Create(e.Context(), out))
	out.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "ServiceAccount"}
	return out
}

func phase(name string, objects ...*unstructured.Unstructured) boxcutter.PhaseBuilder {
	all := make([]client.Object, len(objects))
	for i := range objects {
		all[i] = objects[i]
	}
	return boxcutter.NewPhase(name, all)
}

// revision returns a revision; owner may be nil.
func (e *Env) revision(number int64, owner client.Object, phases ...boxcutter.Phase) boxcutter.RevisionBuilder {
	revision := boxcutter.NewRevision("revision", number, phases)
	if owner == nil {
		return revision
	}
	option := boxcutter.WithOwner(owner, e.owners)
	return revision.WithReconcileOptions(option).WithTeardownOptions(option)
}

// reconcile reconciles and retries conflicts, as every controller does.
func (e *Env) reconcile(rev boxcutter.Revision, opts ...boxcutter.RevisionReconcileOption) machinery.RevisionResult {
	e.Helper()
	for range 5 {
		result, err := e.engine.Reconcile(e.Context(), rev, opts...)
		if err == nil {
			return result
		}
		if !apierrors.IsConflict(err) {
			e.Fatal(err)
		}
	}
	e.Fatal("reconcile still returns a conflict after all retries")
	return nil
}

func (e *Env) teardown(rev boxcutter.Revision, opts ...boxcutter.RevisionTeardownOption) machinery.RevisionTeardownResult {
	e.Helper()
	result, err := e.engine.Teardown(e.Context(), rev, opts...)
	e.must(err)
	return result
}

// get returns the live object, nil if it does not exist.
func (e *Env) get(object client.Object) *unstructured.Unstructured {
	e.Helper()
	out := &unstructured.Unstructured{}
	out.SetGroupVersionKind(object.GetObjectKind().GroupVersionKind())
	err := e.user.Get(e.Context(), client.ObjectKeyFromObject(object), out)
	if apierrors.IsNotFound(err) {
		return nil
	}
	e.must(err)
	return out
}

func (e *Env) create(object *unstructured.Unstructured) {
	e.Helper()
	e.must(e.user.Create(e.Context(), object.DeepCopy(), client.FieldOwner("user")))
}

// edit changes an object as another field manager.
func (e *Env) edit(object *unstructured.Unstructured, patch string) {
	e.Helper()
	e.must(e.user.Patch(e.Context(), object.DeepCopy(), client.RawPatch(apitypes.MergePatchType, []byte(patch)), client.FieldOwner("user")))
}

// only returns the result of the only object.
func (e *Env) only(result machinery.RevisionResult) machinery.ObjectResult {
	e.Helper()
	if len(result.GetPhases()) != 1 || len(result.GetPhases()[0].GetObjects()) != 1 {
		e.Fatalf("want the result of one object:\n%s", result)
	}
	return result.GetPhases()[0].GetObjects()[0]
}

func (e *Env) expect(result machinery.RevisionResult, want machinery.Action) machinery.ObjectResult {
	e.Helper()
	object := e.only(result)
	if object.Action() != want {
		e.Errorf("action is %s, want %s\n%s", object.Action(), want, result)
	}
	return object
}
