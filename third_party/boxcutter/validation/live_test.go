// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	apitypes "k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// request is a recorded request.
type request struct {
	Verb, Object, Manager string
	Force, DryRun         bool
	// Waits reports that a later read would wait until a cache shows the write.
	Waits bool
}

// apiServer responds to applies and creates by object name; it accepts other objects.
type apiServer struct {
	apply, create map[string]error
	requests      []request
}

func (a *apiServer) client() client.Client {
	return interceptor.NewClient(fake.NewFakeClient(), interceptor.Funcs{
		Patch: func(_ context.Context, _ client.WithWatch, obj client.Object, patch client.Patch, opts ...client.PatchOption) error {
			options := (&client.PatchOptions{}).ApplyOptions(opts)
			if patch.Type() != apitypes.ApplyPatchType {
				return fmt.Errorf("patch of type %s", patch.Type())
			}
			a.requests = append(a.requests, request{
				Verb: "apply", Object: obj.GetName(), Manager: options.FieldManager,
				Force: options.Force != nil && *options.Force, DryRun: len(options.DryRun) == 1,
				Waits: !options.DisableReadYourWritesConsistency,
			})
			obj.SetUID("set by the response")
			return a.apply[obj.GetName()]
		},
		Create: func(_ context.Context, _ client.WithWatch, obj client.Object, opts ...client.CreateOption) error {
			options := (&client.CreateOptions{}).ApplyOptions(opts)
			if obj.GetUID() != "" {
				return errors.New("the create got the response to the apply")
			}
			a.requests = append(a.requests, request{
				Verb: "create", Object: obj.GetName(), Manager: options.FieldManager,
				DryRun: len(options.DryRun) == 1, Waits: !options.DisableReadYourWritesConsistency,
			})
			obj.SetUID("set by the response")
			return a.create[obj.GetName()]
		},
	})
}

func configMaps() schema.GroupResource { return schema.GroupResource{Resource: "configmaps"} }

var (
	configMapKind = schema.GroupKind{Kind: "ConfigMap"}
	errNoMatch    = &meta.NoKindMatchError{GroupKind: schema.GroupKind{Kind: "Unknown"}}
	errNotFound   = apierrors.NewNotFound(configMaps(), "a")
)

func typedPatchFailure() error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{
		Status: metav1.StatusFailure, Code: http.StatusInternalServerError,
		Message: "failed to create typed patch object (ns/a; /v1, Kind=ConfigMap): .dta: field not declared in schema",
	}}
}

func TestPhaseValidator_TerminalResponsesAreFindings(t *testing.T) {
	for name, answer := range map[string]error{
		"Unauthorized":          apierrors.NewUnauthorized("who are you"),
		"Forbidden":             apierrors.NewForbidden(configMaps(), "a", errors.New("no")),
		"AlreadyExists":         apierrors.NewAlreadyExists(configMaps(), "a"),
		"Conflict":              apierrors.NewConflict(configMaps(), "a", errors.New("changed")),
		"Invalid":               apierrors.NewInvalid(configMapKind, "a", nil),
		"BadRequest":            apierrors.NewBadRequest("nonsense"),
		"MethodNotAllowed":      apierrors.NewMethodNotSupported(configMaps(), "patch"),
		"RequestEntityTooLarge": apierrors.NewRequestEntityTooLargeError("big"),
		"UnsupportedMediaType":  apierrors.NewGenericServerResponse(http.StatusUnsupportedMediaType, "PATCH", configMaps(), "a", "", 0, false),
		"NotAcceptable":         apierrors.NewGenericServerResponse(http.StatusNotAcceptable, "PATCH", configMaps(), "a", "", 0, false),
		"no match":              fmt.Errorf("finding the resource: %w", errNoMatch),
		"typed patch":           typedPatchFailure(),
	} {
		t.Run(name, func(t *testing.T) {
			server := &apiServer{apply: map[string]error{"a": answer}}
			err := NewClusterObjectValidator(nil, server.client()).Validate(t.Context(), object("ConfigMap", "ns", "a"))
			if _, ok := errors.AsType[*ObjectValidationError](err); !ok {
				t.Errorf("got %v, want an ObjectValidationError", err)
			}
			if _, ok := errors.AsType[DryRunValidationError](err); !ok || !errors.Is(err, answer) {
				t.Errorf("got %v, want a DryRunValidationError of the response", err)
			}
		})
	}
}

func TestPhaseValidator_TransientResponsesAreErrors(t *testing.T) {
	for name, answer := range map[string]error{
		"TooManyRequests":    apierrors.NewTooManyRequests("later", 1),
		"Timeout":            apierrors.NewTimeoutError("slow", 1),
		"ServerTimeout":      apierrors.NewServerTimeout(configMaps(), "patch", 1),
		"ServiceUnavailable": apierrors.NewServiceUnavailable("down"),
		"InternalError":      apierrors.NewInternalError(errors.New("webhook failed: failed to create typed patch object")),
		"no response":        errors.New("connection refused"),
		"canceled":           context.Canceled,
	} {
		t.Run(name, func(t *testing.T) {
			server := &apiServer{apply: map[string]error{"a": answer}}
			err := NewClusterObjectValidator(nil, server.client()).Validate(t.Context(), object("ConfigMap", "ns", "a"))
			if !errors.Is(err, answer) {
				t.Errorf("got %v, want the response", err)
			}
			if _, ok := errors.AsType[*ObjectValidationError](err); ok {
				t.Errorf("got %v, want no ObjectValidationError", err)
			}
		})
	}
}

func TestPhaseValidator_DryRuns(t *testing.T) {
	apply := request{Verb: "apply", Object: "a", Manager: "boxcutter", Force: true, DryRun: true}
	create := request{Verb: "create", Object: "a", Manager: "boxcutter", DryRun: true}
	for name, test := range map[string]struct {
		server apiServer
		want   []request
		report string
	}{
		"an accepted object": {want: []request{apply}},
		"an absent object is created": {
			server: apiServer{apply: map[string]error{"a": errNotFound}},
			want:   []request{apply, create},
		},
		"an object without its kind or namespace": {
			server: apiServer{apply: map[string]error{"a": errNotFound}, create: map[string]error{"a": errNotFound}},
			want:   []request{apply, create},
			report: "/v1, Kind=ConfigMap ns/a:\n- dry-run: configmaps \"a\" not found",
		},
	} {
		t.Run(name, func(t *testing.T) {
			obj := object("ConfigMap", "ns", "a")
			err := NewClusterObjectValidator(nil, test.server.client()).Validate(t.Context(), obj)
			equal(t, "report", test.report, reportOf(t, err))
			equal(t, "requests", test.want, test.server.requests)
			equal(t, "the object changed", object("ConfigMap", "ns", "a"), obj)
		})
	}
}

func TestPhaseValidator_WithFieldOwner(t *testing.T) {
	for name, test := range map[string]struct {
		fieldOwner, ofWriter, want string
	}{
		"told": {fieldOwner: "told", want: "told"},
		"explicit field owner instead of the writer's": {fieldOwner: "told", ofWriter: "writer", want: "told"},
		"field owner of the writer":                    {ofWriter: "writer", want: "writer"},
		"no field owner":                               {want: "boxcutter"},
	} {
		t.Run(name, func(t *testing.T) {
			server := &apiServer{apply: map[string]error{"a": errNotFound}}
			writer := server.client()
			if test.ofWriter != "" {
				writer = client.WithFieldOwner(writer, test.ofWriter)
			}
			validator := NewClusterPhaseValidator(nil, writer)
			if test.fieldOwner != "" {
				validator = validator.WithFieldOwner(test.fieldOwner)
			}
			if err := validator.Validate(t.Context(), phase("one", object("ConfigMap", "ns", "a"))); err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range server.requests {
				got = append(got, r.Verb+" by "+r.Manager)
			}
			equal(t, "requests", []string{"apply by " + test.want, "create by " + test.want}, got)
		})
	}
}

func TestPhaseValidator_MissingNamespace(t *testing.T) {
	mapper := meta.NewDefaultRESTMapper(nil)
	mapper.Add(schema.GroupVersionKind{Version: "v1", Kind: "ConfigMap"}, meta.RESTScopeNamespace)
	for name, validator := range map[string]func(restMapper, client.Writer) *ObjectValidator{
		"cluster": NewClusterObjectValidator, "namespaced": NewNamespacedObjectValidator,
	} {
		err := validator(mapper, (&apiServer{}).client()).Validate(t.Context(), object("ConfigMap", "", "a"))
		want := "/v1, Kind=ConfigMap /a:\n- metadata.namespace: Required value: must be set for objects of this kind"
		if diff := cmp.Diff(want, reportOf(t, err)); diff != "" {
			t.Errorf("%s: report (-want +got):\n%s", name, diff)
		}
	}
}

func TestPhaseValidator_InvalidNamesAreFindings(t *testing.T) {
	server := &apiServer{}
	err := NewClusterObjectValidator(nil, server.client()).Validate(t.Context(), &corev1.ConfigMap{})
	want := `/, Kind= /:
- apiVersion: Required value: must be set to <version> or <group>/<version>
- kind: Required value: must be set
- metadata.name: Required value: must be set`
	equal(t, "report", want, reportOf(t, err))
	if len(server.requests) > 0 {
		t.Errorf("requests to the API server: %v", server.requests)
	}
}

func TestPhaseValidator_ChecksAllObjects(t *testing.T) {
	server := &apiServer{apply: map[string]error{
		"a": apierrors.NewBadRequest("first"), "c": apierrors.NewBadRequest("second"),
	}}
	err := NewClusterPhaseValidator(nil, server.client()).Validate(t.Context(), phase("Bad",
		object("ConfigMap", "ns", "a"), object("ConfigMap", "ns", "b"), object("ConfigMap", "ns", "c"),
	))
	phaseErr, ok := errors.AsType[*PhaseValidationError](err)
	if !ok {
		t.Fatalf("got %v, want a PhaseValidationError", err)
	}
	if _, ok := errors.AsType[PhaseNameInvalidError](phaseErr.PhaseError); !ok {
		t.Errorf("phase error: %v, want a PhaseNameInvalidError", phaseErr.PhaseError)
	}
	want := `/v1, Kind=ConfigMap ns/a: dry-run: first`
	if len(phaseErr.Objects) != 2 || phaseErr.Objects[0].Error() != want {
		t.Errorf("objects: %v, want two, the first %q", phaseErr.Objects, want)
	}
	if len(server.requests) != 3 {
		t.Errorf("requests: %v, want three", server.requests)
	}
}

func TestPhaseValidator_TransientResponseIsNoFinding(t *testing.T) {
	server := &apiServer{apply: map[string]error{
		"a": apierrors.NewBadRequest("finding"), "b": apierrors.NewTooManyRequests("later", 1),
	}}
	err := NewClusterPhaseValidator(nil, server.client()).Validate(t.Context(), phase("one",
		object("ConfigMap", "ns", "a"), object("ConfigMap", "ns", "b"), object("ConfigMap", "ns", "c"),
	))
	if _, ok := errors.AsType[*PhaseValidationError](err); ok || !apierrors.IsTooManyRequests(err) {
		t.Errorf("got %v, want the response", err)
	}
	if len(server.requests) != 2 {
		t.Errorf("requests: %v, want none after TooManyRequests", server.requests)
	}
}

// equal fails the test unless two values are equal.
func equal(t *testing.T, what string, want, got any, options ...cmp.Option) {
	t.Helper()
	if diff := cmp.Diff(want, got, options...); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}
