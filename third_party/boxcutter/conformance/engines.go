// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"context"
	"errors"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/machinery/types"
	"pkg.package-operator.run/boxcutter/validation"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func engineCases() []Case {
	return []Case{
		{"engines/embedded-object-engine", engineEmbedded},
		{"engines/comparable", engineComparable},
		{"engines/missing-options", engineOptions},
		{"engines/error-leaves-phase-out", engineErrors},
		{"engines/error-names-object", engineErrorText},
		{"engines/aggregated-errors", engineAggregate},
		{"engines/create-collision", engineCreateCollision},
		{"engines/unfiltered-reader", engineUnfiltered},
		{"engines/unknown-kind", engineUnknownKind},
		{"engines/empty-phase", engineEmptyPhase},
	}
}

// overriding embeds an object engine and overrides its methods.
type overriding struct {
	*machinery.ObjectEngine

	calls *[]string
}

func (o overriding) Reconcile(
	ctx context.Context, revision int64, desired machinery.Object, opts ...types.ObjectReconcileOption,
) (machinery.ObjectResult, error) {
	*o.calls = append(*o.calls, "reconcile "+desired.GetName())
	return o.ObjectEngine.Reconcile(ctx, revision, desired, opts...)
}

func (o overriding) Teardown(
	ctx context.Context, revision int64, desired machinery.Object, opts ...types.ObjectTeardownOption,
) (bool, error) {
	*o.calls = append(*o.calls, "teardown "+desired.GetName())
	return o.ObjectEngine.Teardown(ctx, revision, desired, opts...)
}

func engineEmbedded(t *testing.T, e *Env) {
	var calls []string
	engine := machinery.NewPhaseEngine(overriding{e.objects(e.client), &calls}, validation.NewClusterPhaseValidator(e.mapper, e.client))
	main := phase("main", e.configMap("a", "red"), e.configMap("b", "red"))
	_, err := engine.Reconcile(e.Context(), 1, main)
	e.must(err)
	_, err = engine.Teardown(e.Context(), 1, main)
	e.must(err)
	if got := strings.Join(calls, ", "); got != "reconcile a, reconcile b, teardown a, teardown b" {
		t.Errorf("calls: %s", got)
	}
}

// isComparable compiles only for comparable types.
func isComparable[T comparable]() {}

func engineComparable(t *testing.T, _ *Env) {
	isComparable[boxcutter.RevisionEngineOptionsError]()
	isComparable[machinery.Comparator]()
	isComparable[machinery.ObjectEngine]()
	options := map[any]bool{
		boxcutter.WithProbe("p", nil): true, types.WithOrphan(): true,
		boxcutter.WithPhaseReconcileOptions("p"): true, types.WithTeardownWriter(nil): true,
	}
	if len(options) != 4 {
		t.Errorf("%d options are different, want 4", len(options))
	}
}

func engineOptions(t *testing.T, e *Env) {
	_, err := e.factory(boxcutter.RevisionEngineOptions{})
	var missing boxcutter.RevisionEngineOptionsError
	if !errors.As(err, &missing) {
		t.Errorf("got %v", err)
	}
}

var errBroken = errors.New("broken")

// broken is a writer that fails for objects with a name prefix.
type broken struct {
	client.Client

	name string
}

func (b broken) Create(ctx context.Context, obj client.Object, opts ...client.CreateOption) error {
	options := client.CreateOptions{}
	options.ApplyOptions(opts)
	if strings.HasPrefix(obj.GetName(), b.name) && len(options.DryRun) == 0 {
		return errBroken
	}
	return b.Client.Create(ctx, obj, opts...)
}

func (b broken) Delete(ctx context.Context, obj client.Object, opts ...client.DeleteOption) error {
	if strings.HasPrefix(obj.GetName(), b.name) {
		return errBroken
	}
	return b.Client.Delete(ctx, obj, opts...)
}

// broken returns an engine whose writer fails for objects with a name prefix.
func (e *Env) broken(name string) Engine {
	e.Helper()
	options := e.options
	options.Writer = broken{e.client, name}
	engine, err := e.factory(options)
	e.must(err)
	return engine
}

func engineErrors(t *testing.T, e *Env) {
	rev := e.revision(1, e.owner("owner"), e.threePhases()...)
	result, err := e.broken("c").Reconcile(e.Context(), rev)
	if !errors.Is(err, errBroken) || len(result.GetPhases()) != 1 || result.GetPhases()[0].GetName() != "one" || result.IsComplete() {
		t.Errorf("got %v\n%s", err, result)
	}
	e.reconcile(rev)
	gone, err := e.broken("d").Teardown(e.Context(), rev)
	if !errors.Is(err, errBroken) || gone != nil {
		t.Errorf("got %v, %v", gone, err)
	}
}

func engineErrorText(t *testing.T, e *Env) {
	_, err := e.broken("a").Reconcile(e.Context(), e.revision(1, e.owner("owner"), e.threePhases()...))
	if want := "reconciling /v1, Kind=ConfigMap " + e.namespace + "/a:"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %s", err, want)
	}
}

func engineAggregate(t *testing.T, e *Env) {
	objects := []*unstructured.Unstructured{e.configMap("x-1", "red"), e.configMap("a", "red"), e.configMap("x-2", "red")}
	rev := e.revision(1, e.owner("owner"), phase("main", objects...))
	_, err := e.broken("x").Reconcile(e.Context(), rev)
	if err == nil || e.get(objects[1]) != nil {
		t.Errorf("the phase continues after the first error: %v", err)
	}
	_, err = e.broken("x").Reconcile(e.Context(), rev, boxcutter.WithAggregatePhaseReconcileErrors())
	if err == nil || strings.Count(err.Error(), errBroken.Error()) != 2 || e.get(objects[1]) == nil {
		t.Errorf("the errors are not aggregated: %v", err)
	}
}

// filtered is a reader that returns no objects.
type filtered struct{ client.Reader }

func (filtered) Get(_ context.Context, key client.ObjectKey, _ client.Object, _ ...client.GetOption) error {
	return apierrors.NewNotFound(unstructuredResource, key.Name)
}

func engineCreateCollision(t *testing.T, e *Env) {
	e.create(e.configMap("settings", "blue"))
	options := e.options
	options.Reader, options.UnfilteredReader = filtered{e.client}, nil
	engine, err := e.factory(options)
	e.must(err)
	_, err = engine.Reconcile(e.Context(), e.revision(1, e.owner("owner"), phase("main", e.configMap("settings", "red"))))
	var collision *machinery.CreateCollisionError
	if !errors.As(err, &collision) || collision.Object().GetName() != "settings" {
		t.Errorf("got %v", err)
	}
}

func engineUnfiltered(_ *testing.T, e *Env) {
	e.create(e.configMap("settings", "blue"))
	options := e.options
	options.Reader = filtered{e.client}
	var err error
	e.engine, err = e.factory(options)
	e.must(err)
	e.expect(e.reconcile(e.revision(1, e.owner("owner"), phase("main", e.configMap("settings", "red")))), machinery.ActionCollision)
}

func engineUnknownKind(t *testing.T, e *Env) {
	object := e.configMap("settings", "red")
	object.SetAPIVersion("nowhere.example.com/v1")
	result, err := e.phaseEngine().Reconcile(e.Context(), 1, phase("main", object))
	if err == nil && result.GetValidationError() == nil {
		t.Errorf("an unknown kind is neither an error nor a finding:\n%s", result)
	}
	if isGone, err := e.objects(e.client).Teardown(e.Context(), 1, object); err != nil || !isGone {
		t.Errorf("an object of an unknown kind is not gone: %t, %v", isGone, err)
	}
}

func engineEmptyPhase(t *testing.T, e *Env) {
	result := e.reconcile(e.revision(1, e.owner("owner"), phase("main")))
	if !result.IsComplete() || !result.HasProgressed() || result.InTransition() {
		t.Errorf("an empty phase is not complete:\n%s", result)
	}
}
