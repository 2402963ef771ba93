// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"pkg.package-operator.run/boxcutter/machinery/types"
)

func object(kind, namespace, name string) *unstructured.Unstructured {
	obj := &unstructured.Unstructured{}
	obj.SetAPIVersion("v1")
	obj.SetKind(kind)
	obj.SetNamespace(namespace)
	obj.SetName(name)
	return obj
}

func changed(obj *unstructured.Unstructured, change func(obj *unstructured.Unstructured)) *unstructured.Unstructured {
	change(obj)
	return obj
}

func phase(name string, objects ...client.Object) types.Phase {
	return types.NewPhase(name, objects)
}

// reportOf returns the report of a validation error; "" for nil.
func reportOf(t *testing.T, err error) string {
	t.Helper()
	if err == nil {
		return ""
	}
	s, ok := errors.AsType[interface {
		error
		String() string
	}](err)
	if !ok {
		t.Fatalf("got %T %v, want a validation error", err, err)
	}
	return s.String()
}

func TestRevisionValidator_Findings(t *testing.T) {
	for name, test := range map[string]struct {
		phases []types.Phase
		want   string
	}{
		"a valid revision": {
			phases: []types.Phase{
				phase("one", object("ConfigMap", "ns", "a"), object("ConfigMap", "ns", "b")),
				phase("two", object("ConfigMap", "other", "a"), object("Secret", "ns", "a")),
			},
		},
		"no phases": {},
		"labels and annotations are allowed": {
			phases: []types.Phase{phase("one", changed(object("ConfigMap", "ns", "a"), func(obj *unstructured.Unstructured) {
				obj.SetLabels(map[string]string{"a": "b"})
				obj.SetAnnotations(map[string]string{"a": "b"})
			}))},
		},
		"a phase name that is not a DNS-1035 label": {
			phases: []types.Phase{phase("1st")},
			want: `revision "rev" (3):
- phase "1st":
  - invalid phase name "1st": a DNS-1035 label must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character (e.g. 'my-name',  or 'abc-123', regex used for validation is '[a-z]([-a-z0-9]*[a-z0-9])?')`,
		},
		"an object in two phases, reported in both": {
			phases: []types.Phase{
				phase("two", object("ConfigMap", "ns", "a")),
				phase("middle", object("ConfigMap", "ns", "b")),
				phase("one", object("ConfigMap", "ns", "a")),
			},
			want: `revision "rev" (3):
- phase "two":
  - /v1, Kind=ConfigMap ns/a:
    - object occurs in more than one phase: one, two
- phase "one":
  - /v1, Kind=ConfigMap ns/a:
    - object occurs in more than one phase: one, two`,
		},
		"an object twice in a phase, reported once": {
			phases: []types.Phase{phase("one", object("ConfigMap", "ns", "a"), object("ConfigMap", "ns", "a"))},
			want: `revision "rev" (3):
- phase "one":
  - /v1, Kind=ConfigMap ns/a:
    - object occurs more than once in phase "one"`,
		},
		"fields of the API server and the engine": {
			phases: []types.Phase{phase("one", changed(object("ConfigMap", "ns", "a"), func(obj *unstructured.Unstructured) {
				obj.SetUID("uid")
				obj.SetGeneration(1)
				obj.SetGenerateName("a-")
				obj.SetFinalizers([]string{"example.com/f"})
				obj.SetOwnerReferences([]metav1.OwnerReference{{Name: "owner"}})
				obj.SetResourceVersion("1")
			}))},
			want: `revision "rev" (3):
- phase "one":
  - /v1, Kind=ConfigMap ns/a:
    - metadata.finalizers: Forbidden: must be empty
    - metadata.generateName: Forbidden: must be empty
    - metadata.generation: Forbidden: must be empty
    - metadata.ownerReferences: Forbidden: must be empty
    - metadata.resourceVersion: Forbidden: must be empty
    - metadata.uid: Forbidden: must be empty`,
		},
		"an object without apiVersion and kind": {
			phases: []types.Phase{phase("one", &unstructured.Unstructured{Object: map[string]any{}})},
			want: `revision "rev" (3):
- phase "one":
  - /, Kind= /:
    - apiVersion: Required value: must be set to <version> or <group>/<version>
    - kind: Required value: must be set
    - metadata.name: Required value: must be set`,
		},
		"names that are invalid in a request": {
			phases: []types.Phase{phase("one", object("ConfigMap", "..", "a/b"))},
			want: `revision "rev" (3):
- phase "one":
  - /v1, Kind=ConfigMap ../a/b:
    - metadata.name: Invalid value: "a/b": may not contain '/'
    - metadata.namespace: Invalid value: "..": may not be '..'`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			err := NewRevisionValidator().Validate(t.Context(), types.NewRevision("rev", 3, test.phases))
			equal(t, "report", test.want, reportOf(t, err))
		})
	}
}

func TestValidationErrors_Unwrap(t *testing.T) {
	a := changed(object("ConfigMap", "ns", "a"), func(obj *unstructured.Unstructured) { obj.SetUID("uid") })
	err := NewRevisionValidator().Validate(t.Context(), types.NewRevision("rev", 3, []types.Phase{
		phase("Bad", a), phase("good", object("ConfigMap", "ns", "a")),
	}))

	revisionErr, ok := errors.AsType[*RevisionValidationError](err)
	if !ok || revisionErr.RevisionName != "rev" || revisionErr.RevisionNumber != 3 || len(revisionErr.Phases) != 2 {
		t.Errorf("revision error: %+v, %v", revisionErr, ok)
	}
	phaseErr, ok := errors.AsType[*PhaseValidationError](err)
	if !ok || phaseErr.PhaseName != "Bad" {
		t.Errorf("phase error: %+v, %v", phaseErr, ok)
	}
	objectErr, ok := errors.AsType[*ObjectValidationError](err)
	if !ok || objectErr.ObjectRef != types.ToObjectRef(a) {
		t.Errorf("object error: %+v, %v", objectErr, ok)
	}
	_, revisionValue := errors.AsType[RevisionValidationError](err)
	_, phaseValue := errors.AsType[PhaseValidationError](err)
	_, objectValue := errors.AsType[ObjectValidationError](err)
	if !revisionValue || !phaseValue || !objectValue {
		t.Errorf("found as values: revision %t, phase %t, object %t", revisionValue, phaseValue, objectValue)
	}
	for _, nested := range revisionErr.Unwrap() {
		if _, ok := nested.(PhaseValidationError); !ok {
			t.Errorf("a nested error is a %T", nested)
		}
	}
	if nameErr, ok := errors.AsType[PhaseNameInvalidError](err); !ok || nameErr.PhaseName != "Bad" || len(nameErr.ErrorMessages) == 0 {
		t.Errorf("name error: %+v, %v", nameErr, ok)
	}
	duplicate, ok := errors.AsType[PhaseObjectDuplicationError](err)
	if diff := cmp.Diff([]string{"Bad", "good"}, duplicate.PhaseNames); !ok || diff != "" {
		t.Errorf("phases of the duplicate (-want +got):\n%s", diff)
	}
	if fieldErr, ok := errors.AsType[*field.Error](err); !ok || fieldErr.Field != "metadata.uid" {
		t.Errorf("field error: %v, %v", fieldErr, ok)
	}
}

func TestValidationErrors_OneLine(t *testing.T) {
	err := NewRevisionValidator().Validate(t.Context(), types.NewRevision("rev", 3, []types.Phase{
		phase("one", object("ConfigMap", "ns", "a"), object("ConfigMap", "", "b")),
		phase("two", object("ConfigMap", "ns", "a"), changed(object("ConfigMap", "", "c"), func(obj *unstructured.Unstructured) {
			obj.SetUID("uid")
		})),
	}))
	want := `revision "rev" (3): phase "one": /v1, Kind=ConfigMap ns/a: object occurs in more than one phase: one, two; ` +
		`phase "two": /v1, Kind=ConfigMap ns/a: object occurs in more than one phase: one, two; ` +
		`/v1, Kind=ConfigMap /c: metadata.uid: Forbidden: must be empty`
	equal(t, "error", want, err.Error())
}
