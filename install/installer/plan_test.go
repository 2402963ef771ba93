// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/setting"
	"github.com/capi-installer/capi-installer/internal/object"
)

// Everything that changes the applied objects changes the key: results are kept by it.
func TestPlan_Key(t *testing.T) {
	seen := map[string]string{}
	for name, p := range map[string]plan{
		"a version":      {version: version{digest: "a"}},
		"another one":    {version: version{digest: "b"}},
		"unmanaged CRDs": {version: version{digest: "a", unmanaged: []string{"x"}}},
		"a Secret":       {version: version{digest: "a", secrets: setting.Secrets{Values: map[string]string{"a": "b"}}}},
		"an authority":   {version: version{digest: "a"}, authority: "x"},
		"a drift policy": {version: version{digest: "a", ignored: []v1alpha1.IgnoredFields{{Kind: "a", Name: "b", Fields: []string{"/c"}}}}},
		"another policy": {version: version{digest: "a", ignored: []v1alpha1.IgnoredFields{{Kind: "a", Name: "b", Fields: []string{"/d"}}}}},
		"another object": {version: version{digest: "a", ignored: []v1alpha1.IgnoredFields{{Kind: "a", Name: "c", Fields: []string{"/c"}}}}},
	} {
		if other, found := seen[p.key()]; found {
			t.Errorf("%s has the key of %s", name, other)
		}
		seen[p.key()] = name
	}
}

// The message of a settled version names the ignored fields. Entries that name nothing are unknown.
func TestPlan_IgnoredFields(t *testing.T) {
	entry, configMap := storedVersion(t, "4.22.0-1", settings("a", "red"))
	s := stateOf([]v1alpha1.Version{entry}, configMap)
	s.Cluster.Spec.DriftPolicy.IgnoredFields = []v1alpha1.IgnoredFields{
		{Kind: "ConfigMap", Name: "a", Fields: []string{"/data/color", "/data/x"}}, {Group: "apps", Kind: "Deployment", Name: "a", Fields: []string{"/spec/replicas"}},
	}
	p := planOf(t, &Applier{}, s, entry)
	want := "fields left to other actors by spec.driftPolicy: ConfigMap a (/data/color, /data/x)"
	if got := p.unknown; len(got) != 1 {
		t.Errorf("unknown: %q", got)
	}
	if got := p.ignoredFields(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if got := settledMessage("", p.ignoredFields()); got != "nothing is left to do; "+want {
		t.Errorf("got %q", got)
	}
}

// Only the finalizer of the installer is removed from a revision ConfigMap.
func TestRemoveFinalizer_KeepsOthers(t *testing.T) {
	configMap := &corev1.ConfigMap{}
	configMap.Name, configMap.Finalizers = "4.22.0-1", []string{"example.com/a", v1alpha1.TeardownFinalizer, "example.com/b"}
	server := fake.NewClientBuilder().WithObjects(configMap).Build()
	if err := removeFinalizer(t.Context(), server, configMap); err != nil {
		t.Fatal(err)
	}
	if err := server.Get(t.Context(), client.ObjectKeyFromObject(configMap), configMap); err != nil || len(configMap.Finalizers) != 2 {
		t.Errorf("finalizers are %v, %v", configMap.Finalizers, err)
	}
}

// The unmanaged CRDs of a version that is removed are named by its entry and by the spec.
func TestDeleted_UnmanagedCRDs(t *testing.T) {
	entry, configMap := storedVersion(t, "4.22.0-1", settings("a", "red"))
	entry.UnmanagedCRDs = []string{"b"}
	s := stateOf([]v1alpha1.Version{entry}, configMap)
	s.Cluster.Spec.UnmanagedCRDs = []string{"a"}
	v, err := s.deleted("4.22.0-1")
	if err != nil || len(v.unmanaged) != 2 {
		t.Errorf("got %v, %v", v.unmanaged, err)
	}
}

// A version whose Secret is missing or belongs to other values can be removed, and is not applied with placeholders.
func TestPlan_SecretsOfAVersion(t *testing.T) {
	values := setting.Secrets{Salt: []byte("salt"), Values: map[string]string{"<secret:a/b>": "blue"}}
	stored, err := revision.Encode(operand.Set{
		SecretsDigest: values.Digest(), Operands: []operand.Operand{{Name: "core", Type: "core", Objects: []*unstructured.Unstructured{settings("a", "<secret:a/b>")}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	configMap := revision.ConfigMaps(v1alpha1.OpenShiftNamespaces.Operator, "4.22.0-1", metav1.OwnerReference{}, stored)[0]
	entry := v1alpha1.Version{Name: "4.22.0-1", Revision: 1, ManifestsDigest: v1alpha1.Digest(stored.Digest), Components: []v1alpha1.Component{{Name: "core", Type: "core"}}}
	other := setting.Secrets{Salt: []byte("other"), Values: values.Values}
	for name, test := range map[string]struct {
		secrets []corev1.Secret
		color   string
	}{
		"the Secret":                    {[]corev1.Secret{*revision.Secret(configMap, values)}, "blue"},
		"no Secret":                     {nil, ""},
		"a Secret with another salt":    {[]corev1.Secret{*revision.Secret(configMap, other)}, ""},
		"a Secret that is not readable": {[]corev1.Secret{{ObjectMeta: metav1.ObjectMeta{Name: "4.22.0-1"}}}, ""},
	} {
		s := stateOf([]v1alpha1.Version{entry}, *configMap)
		s.secrets = test.secrets
		p := planOf(t, &Applier{}, s, entry)
		color := object.TextAt(p.phases[0].Objects[0].Object, "data", "color")
		if test.color != "" && (color != test.color || p.concealed != nil) || test.color == "" && !errors.As(p.concealed, new(*revision.SecretError)) {
			t.Errorf("%s: color %q, error %v", name, color, p.concealed)
		}
		if got := (attempt{plan: p, err: p.concealed}).outcome(); test.color == "" && got.Reason != reason.RevisionUnreadable {
			t.Errorf("%s: outcome %v", name, got)
		}
	}
}
