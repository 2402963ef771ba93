// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/install/compatibility"
	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/status"
	"github.com/capi-installer/capi-installer/internal/object"
)

// reference returns the reference to a ConfigMap.
func reference(name string) engine.Reference {
	return engine.Reference{Identity: object.Identity{GroupKind: schema.GroupKind{Kind: "ConfigMap"}, Name: name}, APIVersion: "v1"}
}

// ready, waiting and colliding are the results of objects.
func ready(name string) engine.Object {
	return engine.Object{Reference: reference(name), Action: engine.Idle, Ready: true, Available: true}
}

func waiting(name, why string) engine.Object {
	return engine.Object{Reference: reference(name), Action: engine.Idle, Reason: why}
}

func colliding(name string, adoptable bool) engine.Object {
	return engine.Object{Reference: reference(name), Action: engine.Collision, Adoptable: adoptable, Blocked: true, Actual: &unstructured.Unstructured{}}
}

// phase returns the result of a phase.
func phase(name string, objects ...engine.Object) engine.Phase {
	out := engine.Phase{Name: name, Complete: true, Objects: objects}
	for _, o := range objects {
		out.Complete = out.Complete && o.Ready
	}
	return out
}

func result(phases ...engine.Phase) engine.Result { return engine.Result{Phases: phases} }

// rejected returns the result of a phase that the API server rejects for some causes.
func rejected(kind schema.GroupKind, causes ...error) engine.Phase {
	objects := []engine.RejectedObject{{Identity: object.Identity{GroupKind: kind, Name: "x"}, Errors: causes}}
	return engine.Phase{Name: "rejected", Rejection: &engine.Rejection{Phase: "rejected", Objects: objects}}
}

// Terminal causes take precedence over retryable errors, and those over a rollout in progress.
func TestOutcome_Precedence(t *testing.T) {
	incompatible := []compatibility.Verdict{{CRD: "machines.x.io", Checker: "checked by OpenShift", Status: "False", Detail: "RequirementsNotMet: field x"}}
	failed, waits := errors.New("timeout"), phase("core", ready("old"), waiting("new", "not ready"))
	absent := rejected(object.CompatibilityRequirement, &meta.NoKindMatchError{})
	forbidden := rejected(schema.GroupKind{Kind: "Secret"}, apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, "x", errors.New("quota")))
	theirs, ours := phase("core", colliding("theirs", false)), phase("core", colliding("ours", true))
	for name, test := range map[string]struct {
		attempt attempt
		want    reason.Reason
		message string // a part of the message or of the error
	}{
		"the engine rejects the revision":      {attempt{result: engine.Result{Invalid: errors.New("two objects"), Phases: []engine.Phase{theirs}}, verdicts: incompatible, err: failed, late: true}, reason.ObjectsRefused, "two objects"},
		"no checker":                           {attempt{result: result(absent)}, reason.CheckerAbsent, "unmanaged CRDs: machines.x.io"},
		"no checker and an error":              {attempt{result: result(absent), err: failed}, reason.ApplyFailed, "timeout"},
		"no checker and a collision":           {attempt{result: result(absent, theirs)}, reason.Collision, "ConfigMap theirs"},
		"a forbidden phase":                    {attempt{result: result(forbidden), late: true}, reason.ObjectsForbidden, "quota"},
		"a forbidden phase and a collision":    {attempt{result: result(forbidden, theirs)}, reason.Collision, "ConfigMap theirs"},
		"a rejection behind a forbidden phase": {attempt{result: result(forbidden, rejected(schema.GroupKind{}, errors.New("invalid")))}, reason.ObjectsRefused, "invalid"},
		"an incompatible CRD and a collision":  {attempt{result: result(theirs), verdicts: incompatible, err: failed}, reason.Incompatible, "CustomResourceDefinition machines.x.io (checked by OpenShift): RequirementsNotMet: field x"},
		"a CRD that is not adopted":            {attempt{result: result(theirs), refused: []string{"CRD x is not adopted"}, err: failed}, reason.Incompatible, "CRD x is not adopted"},
		"a collision and an error":             {attempt{result: result(theirs), err: failed}, reason.Collision, "no owner: ConfigMap theirs"},
		"an adoptable collision and an error":  {attempt{result: result(ours), err: failed}, reason.ApplyFailed, "timeout"},
		"an adoptable collision and no error":  {attempt{result: result(ours)}, reason.Collision, "ConfigMap ours"},
		"an error after the deadline":          {attempt{result: result(waits), err: failed, late: true}, reason.ApplyFailed, "installing version 4.22.0-1: timeout"},
		"no result":                            {attempt{err: failed}, reason.ApplyFailed, "timeout"},
		"no progress before the deadline":      {attempt{result: result(waits), late: true}, reason.ProgressDeadlineExceeded, "phase core 1/2, waiting for ConfigMap new"},
		"an object that is not ready":          {attempt{result: result(waits)}, reason.RollingOut, "installing 4.22.0-1: phase core 1/2, waiting for ConfigMap new"},
		"an installed version":                 {attempt{result: result(waits), scope: maintenance}, reason.RollingOut, "restoring 4.22.0-1: phase core 1/2, waiting for ConfigMap new"},
		"all objects are ready":                {attempt{result: result(phase("core", ready("old"))), late: true}, reason.AsExpected, ""},
	} {
		t.Run(name, func(t *testing.T) {
			test.attempt.plan = plan{version: version{name: "4.22.0-1", unmanaged: []string{"machines.x.io"}}}
			got := test.attempt.outcome()
			text := got.Message
			if got.Err != nil {
				text += got.Err.Error()
			}
			if got.Reason != test.want || !strings.Contains(text, test.message) {
				t.Errorf("got %s: %s, want %s: %s", got.Reason, text, test.want, test.message)
			}
		})
	}
}

// Guarantee: a temporary rejection by the API server is not reported as terminal.
func TestOutcome_Rejections(t *testing.T) {
	resource := schema.GroupResource{Group: "apps", Resource: "deployments"}
	forbidden := apierrors.NewForbidden(resource, "web", errors.New("cannot patch"))
	invalid := apierrors.NewInvalid(schema.GroupKind{Group: "apps", Kind: "Deployment"}, "web", nil)
	for name, test := range map[string]struct {
		causes []error
		want   reason.Reason
	}{
		"forbidden":                  {[]error{forbidden}, reason.ObjectsForbidden},
		"all forbidden":              {[]error{forbidden, forbidden}, reason.ObjectsForbidden},
		"invalid":                    {[]error{invalid}, reason.ObjectsRefused},
		"forbidden and invalid":      {[]error{forbidden, invalid}, reason.ObjectsRefused},
		"an unknown kind":            {[]error{&meta.NoKindMatchError{}}, reason.ObjectsRefused},
		"unavailable":                {[]error{apierrors.NewServiceUnavailable("down")}, reason.ApplyFailed},
		"an internal error":          {[]error{apierrors.NewInternalError(errors.New("etcd"))}, reason.ApplyFailed},
		"no connection":              {[]error{&net.OpError{Op: "dial", Err: errors.New("connection refused")}}, reason.ApplyFailed},
		"a conflict and forbidden":   {[]error{apierrors.NewConflict(resource, "web", nil), forbidden}, reason.ApplyFailed},
		"a request that timed out":   {[]error{context.DeadlineExceeded}, reason.ApplyFailed},
		"another token is needed":    {[]error{apierrors.NewUnauthorized("expired")}, reason.ApplyFailed},
		"the server gave up":         {[]error{&apierrors.StatusError{ErrStatus: metav1.Status{Code: http.StatusRequestTimeout}}}, reason.ApplyFailed},
		"an expired state":           {[]error{apierrors.NewResourceExpired("too old")}, reason.ApplyFailed},
		"too many requests":          {[]error{apierrors.NewTooManyRequests("later", 1)}, reason.ApplyFailed},
		"invalid and then a timeout": {[]error{invalid, context.DeadlineExceeded}, reason.ApplyFailed},
	} {
		got := attempt{result: result(rejected(schema.GroupKind{Kind: "Deployment"}, test.causes...))}.outcome()
		if got.Reason != test.want {
			t.Errorf("%s: got %s, want %s", name, got.Reason, test.want)
		}
	}
}

// Nothing is known about the availability after an error, and a superseded version is never complete.
func TestAttempt_CompleteAndAvailable(t *testing.T) {
	done, half := result(phase("core", ready("a"))), result(phase("core", ready("a"), waiting("b", "")))
	for name, test := range map[string]struct {
		attempt   attempt
		complete  bool
		available *bool
	}{
		"the current version":              {attempt{result: done}, true, new(true)},
		"an object is not ready":           {attempt{result: half}, false, new(false)},
		"an error":                         {attempt{result: done, err: errors.New("x")}, false, nil},
		"only controlled objects are kept": {attempt{result: done, scope: controlledOnly}, false, new(true)},
	} {
		test.attempt.plan.name, test.attempt.works = "4.22.0-1", test.attempt.result.Available()
		if got := test.attempt.complete(); got != test.complete {
			t.Errorf("%s: complete %t, want %t", name, got, test.complete)
		}
		if diff := cmp.Diff(test.available, test.attempt.available("4.22.0-1")); diff != "" {
			t.Errorf("%s: available (-want +got):\n%s", name, diff)
		}
	}
	if got := (attempt{result: done}).available("another"); *got {
		t.Error("a version that was never complete counts as available")
	}
}

// Only writes to objects of the current version revert external changes.
func TestDrift_Actions(t *testing.T) {
	var objects []engine.Object
	for _, action := range []engine.Action{engine.Created, engine.Updated, engine.Recovered, engine.Idle, engine.Progressed, engine.Collision} {
		objects = append(objects, engine.Object{Reference: reference(string(action)), Action: action})
	}
	objects[1].Change = `fields .data.a, changed by field manager "kubectl-edit"`
	drifted := attempt{plan: plan{version: version{name: "4.22.0-1"}}, result: result(phase("core", objects...))}
	want := []status.Event{{
		Reason: status.DriftCorrected, Warning: true,
		Message: `reverted external changes: ConfigMap Created (deleted), ConfigMap Updated (fields .data.a, changed by field manager "kubectl-edit"), ConfigMap Recovered (modified)`,
	}}
	if diff := cmp.Diff(want, drifted.driftEvents("4.22.0-1", &contention{})); diff != "" {
		t.Errorf("events of the current version (-want +got):\n%s", diff)
	}
	if got := drifted.driftEvents("4.22.0-0", &contention{}); got != nil {
		t.Errorf("events of a rollout: %v, want none", got)
	}
	if got := (attempt{plan: drifted.plan, result: result(phase("core", ready("a")))}).driftEvents("4.22.0-1", &contention{}); got != nil {
		t.Errorf("events without a write: %v, want none", got)
	}
	drifted.result.Phases = append(drifted.result.Phases, rejected(schema.GroupKind{Kind: "Secret"}, errors.New("denied")))
	wantDifferences := []string{
		"ConfigMap Created (deleted)", "ConfigMap Updated (modified)", "ConfigMap Recovered (modified)", "ConfigMap Collision (managed by another owner)",
		"phase rejected was rejected: Secret x: denied",
	}
	if diff := cmp.Diff(wantDifferences, differences(drifted.result)); diff != "" {
		t.Errorf("differences (-want +got):\n%s", diff)
	}
}

// A check that the current version creates, because a CRD has become unmanaged, is no drift, nor is a CRD that is managed again. The later
// deletion of the check by another actor is.
func TestDrift_CheckOfAnAddedCRD(t *testing.T) {
	written := func(kind schema.GroupKind, name string, action engine.Action) engine.Result {
		return result(phase("preflight", engine.Object{Reference: engine.Reference{Identity: object.Identity{GroupKind: kind, Name: name}}, Action: action}))
	}
	of := func(name string, action engine.Action) engine.Result {
		return written(object.CompatibilityRequirement, name, action)
	}
	current := version{name: "4.22.0-4", number: 4, unmanaged: []string{"a.x.io", "b.x.io"}, added: []string{"b.x.io"}, released: []string{"c.x.io"}}
	for name, test := range map[string]struct {
		result engine.Result
		drift  bool
	}{
		"the check of an added CRD":               {of("b.x.io-4", engine.Created), false},
		"a changed check of an added CRD":         {of("b.x.io-4", engine.Recovered), true},
		"a deleted check of the version":          {of("a.x.io-4", engine.Created), true},
		"the check of another version of the CRD": {of("b.x.io-3", engine.Created), true},
		"a CRD that is managed again":             {written(object.CustomResourceDefinition, "c.x.io", engine.Updated), false},
		"another CRD":                             {written(object.CustomResourceDefinition, "d.x.io", engine.Updated), true},
	} {
		if got := (attempt{plan: plan{version: current}, result: test.result}).driftEvents("4.22.0-4", &contention{}); (got != nil) != test.drift {
			t.Errorf("%s: events %v, want some: %t", name, got, test.drift)
		}
	}
}

// The time until the next attempt doubles up to the usual one while the API server rejects objects, and is a second again after progress.
func TestNextAttempt(t *testing.T) {
	var last time.Duration
	for i, step := range []struct {
		why        reason.Reason
		progressed bool
		want       time.Duration
	}{
		{reason.ObjectsRefused, false, time.Second}, {reason.ObjectsRefused, false, 2 * time.Second}, {reason.ObjectsRefused, false, 4 * time.Second},
		{reason.ObjectsRefused, true, time.Second}, {reason.ObjectsRefused, false, 2 * time.Second}, {reason.RollingOut, true, 0}, {reason.ObjectsRefused, false, time.Second},
	} {
		if last = nextAttempt(last, step.why, step.progressed); last != step.want {
			t.Errorf("attempt %d: %s, want %s", i, last, step.want)
		}
	}
	for range 10 {
		last = nextAttempt(last, reason.ObjectsRefused, false)
	}
	if want := reason.Of(reason.ObjectsRefused).Recheck; last != want {
		t.Errorf("after many rejections: %s, want %s", last, want)
	}
}

// The event names each object once, in order.
func TestAdoptionEvents(t *testing.T) {
	taken := []string{"ConfigMap b", "ConfigMap a of revision 7", "ConfigMap b"}
	got := attempt{plan: plan{version: version{name: "4.22.0-1"}}, taken: taken}.adoptionEvents(t.Context())
	want := []status.Event{{Reason: status.ObjectsAdopted, Message: "version 4.22.0-1 adopted 2 object(s) of cluster-capi-operator: ConfigMap a of revision 7, ConfigMap b"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// A rejected deletion has the reason that another rejected write has.
func TestRemovalReason(t *testing.T) {
	resource := schema.GroupResource{Resource: "configmaps"}
	forbidden, denied := apierrors.NewForbidden(resource, "a", nil), apierrors.NewInvalid(schema.GroupKind{Kind: "ConfigMap"}, "a", nil)
	for name, test := range map[string]struct {
		err  error
		want reason.Reason
	}{
		"denied by a webhook":                  {fmt.Errorf("removing version a: %w", fmt.Errorf("deleting b: %w", denied)), reason.ObjectsRefused},
		"forbidden":                            {fmt.Errorf("removing version a: %w", errors.Join(forbidden, forbidden)), reason.ObjectsForbidden},
		"forbidden and denied":                 {errors.Join(forbidden, denied), reason.ObjectsRefused},
		"the API server is unavailable":        {errors.Join(denied, apierrors.NewServiceUnavailable("x")), reason.ApplyFailed},
		"a conflict":                           {apierrors.NewConflict(resource, "a", nil), reason.ApplyFailed},
		"a kind that was removed meanwhile":    {fmt.Errorf("listing instances: %w", apierrors.NewNotFound(resource, "a")), reason.ApplyFailed},
		"an expired token":                     {apierrors.NewUnauthorized("expired"), reason.ApplyFailed},
		"an error without the API server":      {fmt.Errorf("reading version a: %w", errors.New("x")), reason.ApplyFailed},
		"denied, and an error of another kind": {errors.Join(denied, errors.New("x")), reason.ApplyFailed},
	} {
		if got := removalReason(test.err); got != test.want {
			t.Errorf("%s: got %s, want %s", name, got, test.want)
		}
	}
}
