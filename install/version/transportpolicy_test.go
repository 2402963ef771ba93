// SPDX-License-Identifier: Apache-2.0

package version

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/extractor/configmap"
)

// policies returns the policy and the binding of the release.
func policies(t *testing.T) (policy, binding *unstructured.Unstructured) {
	t.Helper()
	objects, err := transportPolicy()
	if err != nil {
		t.Fatal(err)
	}
	if objects[0].GetKind() != "ValidatingAdmissionPolicy" {
		objects[0], objects[1] = objects[1], objects[0]
	}
	return objects[0], objects[1]
}

func TestDiffers(t *testing.T) {
	set := func(value any, fields ...string) func(*unstructured.Unstructured) {
		return func(o *unstructured.Unstructured) {
			if err := unstructured.SetNestedField(o.Object, value, fields...); err != nil {
				t.Fatal(err)
			}
		}
	}
	for name, test := range map[string]struct {
		binding bool
		edit    func(*unstructured.Unstructured)
		want    []string
	}{
		"unchanged policy":                {false, func(*unstructured.Unstructured) {}, nil},
		"unchanged binding":               {true, func(*unstructured.Unstructured) {}, nil},
		"labels":                          {false, set("b", "metadata", "labels", "a"), nil},
		"selector of the policy":          {false, set(map[string]any{"matchLabels": map[string]any{"a": "b"}}, "spec", "matchConstraints", "objectSelector"), []string{"spec.matchConstraints"}},
		"failure policy":                  {false, set("Ignore", "spec", "failurePolicy"), []string{"spec.failurePolicy"}},
		"conditions":                      {false, set([]any{map[string]any{"name": "a", "expression": "false"}}, "spec", "matchConditions"), []string{"spec.matchConditions"}},
		"no validations":                  {false, set([]any{}, "spec", "validations"), []string{"spec.validations"}},
		"parameters":                      {false, set(map[string]any{"apiVersion": "v1", "kind": "ConfigMap"}, "spec", "paramKind"), []string{"spec.paramKind"}},
		"actions of the binding":          {true, set([]any{"Audit"}, "spec", "validationActions"), []string{"spec.validationActions"}},
		"selector of the binding":         {true, set(map[string]any{"matchPolicy": "Exact"}, "spec", "matchResources"), []string{"spec.matchResources"}},
		"binding of another policy":       {true, set("other", "spec", "policyName"), []string{"spec.policyName"}},
		"a binding that is being deleted": {true, set("2026-01-01T00:00:00Z", "metadata", "deletionTimestamp"), []string{"metadata.deletionTimestamp"}},
	} {
		t.Run(name, func(t *testing.T) {
			want, binding := policies(t)
			if test.binding {
				want = binding
			}
			found := want.DeepCopy()
			test.edit(found)
			if diff := cmp.Diff(test.want, differs(want, found)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// failingReader is a reader whose reads fail.
type failingReader struct{ client.Reader }

func (failingReader) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return errors.New("the API server is unavailable")
}

func bundlesOf(t *testing.T, r *Reconciler) ([]extractor.Result, []*configmap.OtherError, error) {
	t.Helper()
	return transport{r.Client, r.Live, r.Release, v1alpha1.OpenShiftNamespaces.Operand}.bundles(t.Context())
}

// TestTransportBundles_NeedThePolicy: without the policy, any user could write the ConfigMaps.
func TestTransportBundles_NeedThePolicy(t *testing.T) {
	transport := func() client.Object {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operand, Name: "aws-00", Labels: map[string]string{configmap.BundleLabel: "aws"}, CreationTimestamp: metav1.Unix(1_000_000, 0)},
			Data:       map[string]string{configmap.Manifests: "kind: Namespace\n"},
		}
	}
	policy, binding := policies(t)
	for name, test := range map[string]struct {
		objects []client.Object
		missing []string // kinds
	}{
		"both": {[]client.Object{transport(), policy, binding}, nil}, "no binding": {[]client.Object{transport(), policy}, []string{"ValidatingAdmissionPolicyBinding"}},
		"none": {[]client.Object{transport()}, []string{"ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyBinding"}},
	} {
		results, _, err := bundlesOf(t, reconcilerWith(t, test.objects...))
		if err != nil || len(results) != 1 {
			t.Fatalf("%s: %v, %v", name, results, err)
		}
		if errors.As(results[0].Err, new(*PolicyError)) != (test.missing != nil) {
			t.Errorf("%s: got %v", name, results[0].Err)
		}
		for _, kind := range test.missing {
			if !strings.Contains(results[0].Err.Error(), kind+` "`+TransportPolicyName) {
				t.Errorf("%s: %v does not contain %s", name, results[0].Err, kind)
			}
		}
	}
	for age, unused := range map[time.Duration]bool{-time.Hour: true, 0: true, enforcement - time.Second: true, enforcement: false} {
		aged, guard := transport(), binding.DeepCopy()
		guard.SetCreationTimestamp(metav1.Unix(1_000_000, 0))
		aged.SetCreationTimestamp(metav1.NewTime(guard.GetCreationTimestamp().Add(age)))
		results, _, err := bundlesOf(t, reconcilerWith(t, aged, policy, guard))
		if err != nil || errors.As(results[0].Err, new(*PolicyError)) != unused || unused && !strings.Contains(results[0].Err.Error(), "aws-00; delete them") {
			t.Errorf("%s after the binding: %v, %v", age, results, err)
		}
	}
	r := reconcilerWith(t, transport())
	r.Live = failingReader{}
	if results, _, err := bundlesOf(t, r); err == nil || results != nil {
		t.Errorf("an unavailable API server: got %v, %v", results, err)
	}
	r = reconcilerWith(t)
	r.Live = failingReader{}
	if results, others, err := bundlesOf(t, r); err != nil || results != nil || others != nil {
		t.Errorf("no ConfigMaps: got %v, %v, %v", results, others, err)
	}
}
