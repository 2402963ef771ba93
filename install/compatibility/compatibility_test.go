// SPDX-License-Identifier: Apache-2.0

package compatibility

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/probe"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/internal/object"
)

const requiredManifest = `
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: machines.x.io}
spec:
  group: x.io
  scope: Namespaced
  names: {kind: Machine}
  versions: [{name: v1, served: true, storage: true}]
`

const established = "status: {conditions: [{type: Established, status: \"True\"}]}\n"

func decoded(t *testing.T, manifest string) *unstructured.Unstructured {
	t.Helper()
	out := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(manifest), &out.Object); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestVerdictOn(t *testing.T) {
	required := &apiextensionsv1.CustomResourceDefinition{}
	if err := yaml.Unmarshal([]byte(requiredManifest), required); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct {
		actual, status string
		reason         string // why the rollout waits
		refused        string
	}{
		"missing":         {"", "Unknown", "Compatible is Unknown: NotFound: CustomResourceDefinition machines.x.io does not exist (checked by the installer)", ""},
		"not Established": {requiredManifest, "Unknown", "Compatible is Unknown: NotEstablished: CustomResourceDefinition machines.x.io is not Established (checked by the installer)", ""},
		"the same":        {requiredManifest + established, "True", "", ""},
		"another version": {strings.Replace(requiredManifest, "name: v1", "name: v2", 1) + established, "False", "Compatible is False: ",
			"CustomResourceDefinition machines.x.io (checked by the installer): Incompatible: compared to the CRD of the provider: version v1 removed"},
	} {
		var actual *unstructured.Unstructured
		if test.actual != "" {
			actual = decoded(t, test.actual)
		}
		verdict, err := verdictOn(required, actual)
		if err != nil || verdict.Status != test.status || verdict.CRD != "machines.x.io" {
			t.Errorf("%s: got %+v, %v, want status %s", name, verdict, err, test.status)
		}
		phase := Phase([]Verdict{verdict})
		checked := phase.Objects[0]
		if phase.Name != revision.Preflight || phase.Complete != (test.status == "True") || checked.Ready != phase.Complete || checked.Blocked != (test.status == "False") || !checked.Available {
			t.Errorf("%s: phase is %+v", name, phase)
		}
		if !strings.HasPrefix(checked.Reason, test.reason) || (checked.Reason == "") != (test.reason == "") {
			t.Errorf("%s: reason is %q, want %q", name, checked.Reason, test.reason)
		}
		if got := Refused([]Verdict{verdict}); !strings.Contains(got, test.refused) || (got == "") != (test.refused == "") {
			t.Errorf("%s: refused: %q, want %q", name, got, test.refused)
		}
	}
}

func TestAccepted_NamesTheChecker(t *testing.T) {
	if got := Accepted(nil); got != "" {
		t.Errorf("without unmanaged CRDs: %q", got)
	}
	want := "nothing is left to do; unmanaged CRDs are compatible: machines.x.io (checked by the installer)"
	if got := Accepted([]Verdict{{CRD: "machines.x.io", Checker: byInstaller, Status: "True"}}); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// The name of the CRD is in the status of a requirement, or else in its name.
func TestOf_Requirements(t *testing.T) {
	requirement := func(status map[string]any) engine.Object {
		actual := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		actual.SetGroupVersionKind(RequirementVersionKind)
		actual.SetName("machines.x.io-2")
		return engine.Object{Reference: engine.Reference{Identity: object.IdentityOf(actual)}, Actual: actual}
	}
	conditions := []any{map[string]any{"type": probe.Compatible, "status": "False", "reason": "RequirementsNotMet", "message": "field x"}}
	result := engine.Result{Phases: []engine.Phase{{Objects: []engine.Object{
		requirement(map[string]any{"conditions": conditions}), requirement(map[string]any{"crdName": "others.x.io"}), {Action: engine.Idle},
	}}}}
	by := "checked by OpenShift, CompatibilityRequirement machines.x.io-2"
	want := []Verdict{{CRD: "machines.x.io", Checker: by, Status: "False", Detail: "RequirementsNotMet: field x"}, {CRD: "others.x.io", Checker: by}}
	if diff := cmp.Diff(want, Of(result)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// crdScheme has the kind of CRDs.
func crdScheme(t *testing.T) *runtime.Scheme {
	t.Helper()
	out := runtime.NewScheme()
	if err := apiextensionsv1.AddToScheme(out); err != nil {
		t.Fatal(err)
	}
	return out
}

// down returns a reader that answers no request.
func down(t *testing.T) client.Reader {
	return interceptor.NewClient(fake.NewClientBuilder().WithScheme(crdScheme(t)).Build(), interceptor.Funcs{
		Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return apierrors.NewServiceUnavailable("down")
		},
	})
}

// The API of the checker is not used while its CRD is being deleted.
func TestChecker_Served(t *testing.T) {
	crd := func() *apiextensionsv1.CustomResourceDefinition {
		return &apiextensionsv1.CustomResourceDefinition{ObjectMeta: metav1.ObjectMeta{Name: RequirementsCRD}}
	}
	deleted := crd()
	deleted.DeletionTimestamp, deleted.Finalizers = new(metav1.Now()), []string{"customresourcecleanup.apiextensions.k8s.io"}
	build := func(objects ...client.Object) client.Reader {
		return fake.NewClientBuilder().WithScheme(crdScheme(t)).WithObjects(objects...).Build()
	}
	for name, test := range map[string]struct {
		reader       client.Reader
		want, failed bool
	}{
		"the CRD exists":           {build(crd()), true, false},
		"the CRD is being deleted": {build(deleted), false, false},
		"the CRD does not exist":   {build(), false, false},
		"the CRD cannot be read":   {down(t), false, true},
	} {
		got, err := (&Checker{Metadata: test.reader}).Served(t.Context())
		if got != test.want || (err != nil) != test.failed {
			t.Errorf("%s: %t, %v; want %t, an error: %t", name, got, err, test.want, test.failed)
		}
	}
}
