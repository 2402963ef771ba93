// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"pkg.package-operator.run/boxcutter/validation"
)

// refused checks that a revision is rejected as a whole, before any object of its phase is written, and returns the
// finding.
func (b *env) refused(revision boxcutter.Revision) error {
	b.Helper()
	b.requests.take()
	result := b.reconcile(revision)
	for _, request := range b.requests.take() {
		if slices.Contains([]string{"create", "apply", "patch", "update", "delete"}, request.verb) && !request.rejected {
			b.Errorf("there was a request to %s %s", request.verb, request.path)
		}
	}
	pending := len(result.GetPhases()) < len(revision.GetPhases()) && result.GetValidationError() == nil
	if result.IsComplete() || result.InTransition() != pending || result.HasProgressed() || !strings.Contains(result.String(), "Validation Errors:") {
		b.Errorf("the result does not report the rejection:\n%s", result)
	}
	if err := result.GetValidationError(); err != nil {
		return err
	}
	last := result.GetPhases()[len(result.GetPhases())-1]
	if err := last.GetValidationError(); err != nil && len(last.GetObjects()) == 0 {
		return err
	}
	b.Fatalf("the revision is not rejected:\n%s", result)
	return nil
}

// bad are objects that the API server rejects, with its messages.
var bad = map[string]struct {
	object string
	is     func(error) bool
	says   string
}{
	"an unknown kind":               {`{apiVersion: example.com/v1, kind: Gadget, metadata: {name: x, namespace: default}}`, meta.IsNoMatchError, "Gadget"},
	"an unknown version":            {`{apiVersion: apps/v9, kind: Deployment, metadata: {name: x, namespace: default}}`, meta.IsNoMatchError, "apps/v9"},
	"a missing namespace":           {`{apiVersion: v1, kind: ConfigMap, metadata: {name: x, namespace: no-such-namespace}}`, apierrors.IsNotFound, "no-such-namespace"},
	"an undeclared field":           {`{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, date: {}}`, isDryRun, ".date: field not declared in schema"},
	"a value of the wrong type":     {`{apiVersion: v1, kind: ConfigMap, metadata: {name: x}, data: [1]}`, isDryRun, ".data"},
	"a value out of range":          {`{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {ports: [{port: 99999}]}}`, apierrors.IsInvalid, "spec.ports[0].port"},
	"a missing value":               {`{apiVersion: apps/v1, kind: Deployment, metadata: {name: x}, spec: {}}`, apierrors.IsInvalid, "spec.selector"},
	"a duplicate list item":         {`{apiVersion: v1, kind: Service, metadata: {name: x}, spec: {ports: [{port: 80, name: a}, {port: 80, name: b}]}}`, isDryRun, "port"},
	"an invalid name":               {`{apiVersion: v1, kind: ConfigMap, metadata: {name: Not_A_Name}}`, apierrors.IsInvalid, "metadata.name"},
	"a name with a slash":           {`{apiVersion: v1, kind: ConfigMap, metadata: {name: a/b}}`, isField, "metadata.name"},
	"a kind that cannot be created": {`{apiVersion: v1, kind: ComponentStatus, metadata: {name: x}}`, apierrors.IsMethodNotSupported, "not"},
}

func isDryRun(err error) bool {
	_, ok := errors.AsType[validation.DryRunValidationError](err)
	return ok
}

func isField(err error) bool {
	_, ok := errors.AsType[*field.Error](err)
	return ok
}

func TestDryRun_RejectedObjects(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	owner := b.owner("owner")
	for name, test := range bad {
		b.within(name, func(b *env) {
			good := b.configMap("good", "red")
			err := b.refused(b.revision(1, owner, nil, phase("main", good, b.object("%s", test.object))))
			if !test.is(err) || !strings.Contains(err.Error(), test.says) {
				b.Errorf("got %v", err)
			}
			if b.get(good) != nil {
				b.Error("the valid object of the phase was created")
			}
		})
	}
}

func TestDryRun_ImmutableFieldUntilReplaced(t *testing.T) {
	eachOwnership(t, func(b *env) {
		owner := b.owner("owner")
		secret := func(value string) *unstructured.Unstructured {
			return b.object(`{apiVersion: v1, kind: Secret, metadata: {name: key}, immutable: true, data: {key: %s}}`, value)
		}
		b.install(b.revision(1, owner, nil, phase("main", secret("b25l"))))
		next := b.revision(2, owner, nil, phase("main", b.configMap("settings", "red"), secret("dHdv")))
		// A migration of the managed fields can precede the first rejection. It changes no other field.
		if result := b.reconcile(next); result.GetPhases()[0].GetValidationError() == nil {
			b.Fatalf("the revision is not rejected:\n%s", result)
		}
		b.catchUp(next)
		before := b.get(secret(""))
		if err := b.refused(next); !apierrors.IsInvalid(err) || !strings.Contains(err.Error(), "immutable") {
			b.Errorf("got %v", err)
		}
		b.unchanged(before)
		if value, _, _ := unstructured.NestedString(before.Object, "data", "key"); value != "b25l" || b.get(b.configMap("settings", "")) != nil {
			b.Error("an object of the phase was written")
		}
		b.delete(secret(""))
		b.install(next)
	})
}

// A phase can contain its own namespaces and kinds.
func TestDryRun_PhaseWithItsOwnKindAndNamespace(t *testing.T) {
	b := newEnv(t, envOptions{ownership: ownerless})
	namespace := b.object(`{apiVersion: v1, kind: Namespace, metadata: {name: %s-more}}`, b.namespace)
	inside := b.configMap("settings", "red")
	inside.SetNamespace(namespace.GetName())
	definition := b.definition("Widget")
	b.removeAtEnd(namespace)
	b.removeAtEnd(definition)
	revision := b.revision(1, nil, nil, phase("main", namespace, inside, definition, b.widget("widget")))
	b.eventually("the kind is served", func() bool {
		result, err := b.engine.Reconcile(t.Context(), revision)
		return err == nil && result.IsComplete()
	})
	b.catchUp(revision)
	b.requests.take()
	b.expectActions(b.reconcile(revision), machinery.ActionIdle, machinery.ActionIdle, machinery.ActionIdle, machinery.ActionIdle)
	b.expectRequests(map[string]int{})
}

func TestDryRun_FindingEndsWithItsCause(t *testing.T) {
	b := newEnv(t, envOptions{ownership: ownerless})
	inside := b.configMap("settings", "red")
	inside.SetNamespace(b.namespace + "-more")
	b.refused(b.revision(1, nil, nil, phase("main", inside)))
	namespace := b.object(`{apiVersion: v1, kind: Namespace, metadata: {name: %s-more}}`, b.namespace)
	b.create(namespace)
	b.removeAtEnd(namespace)
	b.install(b.revision(1, nil, nil, phase("main", inside)))

	if err := b.refused(b.revision(1, nil, nil, phase("main", b.widget("widget")))); !meta.IsNoMatchError(err) {
		t.Errorf("got %v", err)
	}
	b.define("Widget")
	b.install(b.revision(1, nil, nil, phase("main", b.widget("widget"))))
}

// The API server would reject an object with two controllers; the result must be a
// collision with another owner.
func TestDryRun_UncachedCollisionIsNoFinding(t *testing.T) {
	b := newEnv(t, envOptions{ownership: native})
	stranger, settings := b.createOwner("stranger"), b.configMap("settings", "red")
	b.must(native.strategy.SetControllerReference(stranger, settings))
	b.create(settings)
	good, wrong := b.configMap("good", "red"), b.object(`{apiVersion: v1, kind: Service, metadata: {name: web}, spec: {ports: [{port: 99999}]}}`)
	owner := b.owner("owner")
	b.expectActions(b.reconcile(b.revision(1, owner, nil, phase("main", good, b.configMap("settings", "blue")))), machinery.ActionCreated, machinery.ActionCollision)

	result := b.reconcile(b.revision(1, owner, nil, phase("other", b.configMap("settings", "blue"), wrong)))
	err := result.GetPhases()[0].GetValidationError()
	if err == nil || len(err.Objects) != 1 || err.Objects[0].ObjectRef.Name != "web" {
		t.Errorf("rejected: %v, want only the service", err)
	}
}
