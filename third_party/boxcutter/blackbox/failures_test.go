// SPDX-License-Identifier: Apache-2.0

package blackbox_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pkg.package-operator.run/boxcutter"
	"pkg.package-operator.run/boxcutter/machinery"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// answers returns an answer of a failing API server.
func answers(code int32, reason metav1.StatusReason) *http.Response {
	body, err := json.Marshal(metav1.Status{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Status"},
		Status:   metav1.StatusFailure, Code: code, Reason: reason, Message: string(reason) + " by the test",
	})
	if err != nil {
		panic(err)
	}
	return &http.Response{
		StatusCode: int(code), ProtoMajor: 1, ProtoMinor: 1,
		Header: http.Header{"Content-Type": {"application/json"}},
		Body:   io.NopCloser(bytes.NewReader(body)), ContentLength: int64(len(body)),
	}
}

// failing makes requests of a verb fail for objects with these names.
func (b *env) failing(verb string, code int32, reason metav1.StatusReason, names ...string) {
	b.requests.set(0, func(r request) *http.Response {
		named := func(name string) bool {
			return strings.HasSuffix(r.path, "/"+name) || strings.Contains(r.body, `"name":"`+name+`"`)
		}
		if r.verb != verb || !slices.ContainsFunc(names, named) {
			return nil
		}
		return answers(code, reason)
	})
}

func (b *env) five() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, name := range []string{"aa", "bb", "cc", "dd", "ee"} {
		out = append(out, b.configMap(name, "red"))
	}
	return out
}

// there returns the existing ones of the five objects.
func (b *env) there() string {
	var out []string
	for _, object := range b.five() {
		if b.get(object) != nil {
			out = append(out, object.GetName())
		}
	}
	return strings.Join(out, " ")
}

var (
	aggregate  = boxcutter.WithAggregatePhaseReconcileErrors()
	serverDown = metav1.StatusReasonInternalError
)

func TestFailures_FirstErrorStopsUnlessAggregated(t *testing.T) {
	for name, test := range map[string]struct {
		options []boxcutter.RevisionReconcileOption
		there   string
		errs    int
	}{
		"by default": {nil, "aa", 1},
		"aggregated": {[]boxcutter.RevisionReconcileOption{aggregate}, "aa cc ee", 2},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t, envOptions{ownership: annotation})
			revision := b.revision(1, b.owner("owner"), nil, phase("main", b.five()...), phase("next", b.configMap("zz", "red")))
			b.failing("create", http.StatusInternalServerError, serverDown, "bb", "dd")
			result, err := b.engine.Reconcile(t.Context(), revision, test.options...)
			if n := strings.Count(err.Error(), "by the test"); n != test.errs || !apierrors.IsInternalError(err) || !strings.Contains(err.Error(), "phase main") {
				t.Errorf("%d errors, want %d: %v", n, test.errs, err)
			}
			if got := b.there(); got != test.there || b.get(b.configMap("zz", "")) != nil {
				t.Errorf("created: %s, want %s", got, test.there)
			}
			if result == nil || result.IsComplete() || len(result.GetPhases()) > 0 {
				t.Errorf("the result contains the failing phase:\n%s", result)
			}
			b.requests.set(0, nil)
			b.install(revision, test.options...)
		})
	}
}

func TestFailures_TooManyRequestsStopsAtOnce(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	revision := b.revision(1, b.owner("owner"), nil, phase("main", b.five()...))
	b.failing("create", http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "cc")
	_, err := b.engine.Reconcile(t.Context(), revision, aggregate)
	if !apierrors.IsTooManyRequests(err) || b.there() != "aa bb" {
		t.Errorf("got %v; created: %s", err, b.there())
	}
}

func TestFailures_TooManyDryRunsIsNoFinding(t *testing.T) {
	for code, reason := range map[int32]metav1.StatusReason{
		http.StatusTooManyRequests: metav1.StatusReasonTooManyRequests, http.StatusInternalServerError: serverDown,
		http.StatusGatewayTimeout: metav1.StatusReasonTimeout, http.StatusServiceUnavailable: metav1.StatusReasonServiceUnavailable,
	} {
		t.Run(string(reason), func(t *testing.T) {
			b := newEnv(t, envOptions{ownership: annotation})
			b.failing("dry-run apply", code, reason, "bb")
			result, err := b.engine.Reconcile(t.Context(), b.revision(1, b.owner("owner"), nil, phase("main", b.five()...)))
			if apierrors.ReasonForError(err) != reason || b.there() != "" || result.IsComplete() {
				t.Errorf("got %v; created: %s\n%s", err, b.there(), result)
			}
		})
	}
}

func TestFailures_TeardownErrors(t *testing.T) {
	for name, test := range map[string]struct {
		options []boxcutter.RevisionTeardownOption
		code    int32
		reason  metav1.StatusReason
		there   string
	}{
		"by default":        {nil, http.StatusInternalServerError, serverDown, "bb cc dd ee"},
		"aggregated":        {[]boxcutter.RevisionTeardownOption{boxcutter.WithAggregatePhaseTeardownErrors()}, http.StatusInternalServerError, serverDown, "bb dd"},
		"too many requests": {[]boxcutter.RevisionTeardownOption{boxcutter.WithAggregatePhaseTeardownErrors()}, http.StatusTooManyRequests, metav1.StatusReasonTooManyRequests, "bb cc dd ee"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newEnv(t, envOptions{ownership: annotation})
			revision := b.revision(1, b.owner("owner"), nil, phase("first", b.configMap("zz", "red")), phase("main", b.five()...))
			b.install(revision)
			b.failing("delete", test.code, test.reason, "bb", "dd")
			result, err := b.engine.Teardown(t.Context(), revision, test.options...)
			if apierrors.ReasonForError(err) != test.reason || b.there() != test.there {
				t.Errorf("got %v; remaining: %s, want %s", err, b.there(), test.there)
			}
			if result != nil || b.get(b.configMap("zz", "")) == nil {
				t.Errorf("the result is not nil, or the next phase was started:\n%s", result)
			}
			b.requests.set(0, nil)
			b.removes(revision)
		})
	}
}

// Another client writes between the read and the write of the engine.
func TestReconcile_UnseenEditIsNotOverwritten(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	owner, settings := b.owner("owner"), b.configMap("settings", "red")
	b.install(b.revision(1, owner, nil, phase("main", settings)))
	b.options.Reader = frozen{Reader: b.cache, object: b.get(settings)}
	b.options.UnfilteredReader = nil
	b.restart()
	b.edit(settings, `{"data":{"theirs":"new"}}`)
	_, err := b.engine.Reconcile(t.Context(), b.revision(2, owner, nil, phase("main", b.configMap("settings", "blue"))))
	if !apierrors.IsConflict(err) || color(b.get(settings)) != "red" {
		t.Errorf("got %v", err)
	}

	b.options.UnfilteredReader = b.client
	b.restart()
	b.expectActions(b.reconcile(b.revision(2, owner, nil, phase("main", b.configMap("settings", "blue")))), machinery.ActionUpdated)
	data, _, _ := unstructured.NestedStringMap(b.get(settings).Object, "data")
	if data["theirs"] != "new" || data["color"] != "blue" {
		t.Errorf("data: %v", data)
	}
}

func TestDrift_RevertedByField(t *testing.T) {
	eachOwnership(t, func(b *env) {
		settings := b.configMap("settings", "red")
		revision := b.revision(1, b.owner("owner"), nil, phase("main", settings))
		b.install(revision)
		for name, test := range map[string]struct {
			edit   string
			action machinery.Action
		}{
			"a changed value":       {`{"data":{"color":"blue"}}`, machinery.ActionRecovered},
			"a removed value":       {`{"data":{"color":null}}`, machinery.ActionUpdated},
			"all values removed":    {`{"data":null}`, machinery.ActionUpdated},
			"our revision":          {`{"metadata":{"annotations":{"` + revisionMark + `":"77"}}}`, machinery.ActionRecovered},
			"an added value":        {`{"data":{"theirs":"x"}}`, machinery.ActionIdle},
			"an added label":        {`{"metadata":{"labels":{"theirs":"x"}}}`, machinery.ActionIdle},
			"an added finalizer":    {`{"metadata":{"finalizers":["example.com/theirs"]}}`, machinery.ActionIdle},
			"an added binary value": {`{"binaryData":{"theirs.bin":"eA=="}}`, machinery.ActionIdle},
			"a removed annotation":  {`{"metadata":{"annotations":{"note":null}}}`, machinery.ActionIdle},
		} {
			b.within(name, func(b *env) {
				b.edit(settings, test.edit)
				b.expectActions(b.reconcile(revision), test.action)
				b.catchUp(revision)
				b.reconcile(revision)
				b.catchUp(revision)
				b.expectActions(b.reconcile(revision), machinery.ActionIdle)
				if got := b.get(settings); color(got) != "red" {
					b.Errorf("data: %v", got.Object["data"])
				}
			})
		}
		b.edit(settings, `{"metadata":{"finalizers":null}}`)
	})
}

// An object without its label is no longer in the cache.
func TestDrift_RestoresLabel(t *testing.T) {
	eachOwnership(t, func(b *env) {
		settings := b.configMap("settings", "red")
		revision := b.revision(1, b.owner("owner"), nil, phase("main", settings))
		b.install(revision)
		b.edit(settings, `{"metadata":{"labels":{"`+managedByLabel+`":null}}}`)
		if result := b.reconcile(revision); !result.IsComplete() {
			b.Errorf("the revision is not complete:\n%s", result)
		}
		if got := b.get(settings).GetLabels()[managedByLabel]; got != b.namespace {
			b.Errorf("the label is %q", got)
		}
	})
}

func TestMisuse_IsTypedError(t *testing.T) {
	b := newEnv(t, envOptions{ownership: annotation})
	settings := []client.Object{b.configMap("settings", "red")}
	owner := b.owner("owner")
	for name, revision := range map[string]boxcutter.Revision{
		"revision number 0":         boxcutter.NewRevision("zero", 0, []boxcutter.Phase{boxcutter.NewPhase("main", settings)}),
		"an owner without strategy": boxcutter.NewRevisionWithOwner("one", 1, []boxcutter.Phase{boxcutter.NewPhase("main", settings)}, owner, nil),
	} {
		b.within(name, func(b *env) {
			_, reconcile := b.engine.Reconcile(b.Context(), revision)
			_, teardown := b.engine.Teardown(b.Context(), revision)
			for _, err := range []error{reconcile, teardown} {
				if _, ok := errors.AsType[*machinery.MisuseError](err); !ok {
					b.Errorf("got %v", err)
				}
			}
			if b.get(settings[0]) != nil {
				b.Error("the object was created")
			}
		})
	}
}
