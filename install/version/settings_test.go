// SPDX-License-Identifier: Apache-2.0

package version

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/install/revision"
	"github.com/capi-installer/capi-installer/install/setting"
)

func secretInNamespace(name string, data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: name}, Data: data}
}

// referring returns a ClusterAPI object whose settings refer to a Secret.
func referring() *v1alpha1.ClusterAPI {
	cluster := clusterAPI()
	cluster.Status.DesiredVersion = "4.22.0-1"
	cluster.Spec.Components = []v1alpha1.ComponentSettings{{
		Name:      "aws",
		Variables: []v1alpha1.Variable{{Name: "TOKEN", ValueFrom: &v1alpha1.VariableSource{SecretKeyRef: v1alpha1.SecretKeyReference{Name: "aws", Key: "token"}}}},
	}}
	return cluster
}

// All missing references are reported at once, and are awaited.
func TestSettings_MissingReferences(t *testing.T) {
	for name, test := range map[string]struct {
		objects []client.Object
		want    string
	}{
		"no Secret": {nil, "spec.components refers to Secret " + v1alpha1.OpenShiftNamespaces.Operator + "/aws: not found"},
		"no key":    {[]client.Object{secretInNamespace("aws", map[string][]byte{"other": nil})}, `/aws: key "token" not found`},
		"no text":   {[]client.Object{secretInNamespace("aws", map[string][]byte{"token": {0xff}})}, `/aws: the value of key "token" is not a text in UTF-8`},
	} {
		_, err := reconcilerWith(t, test.objects...).readCluster(t.Context(), referring().Spec).settings(referring().Spec, nil, setting.Secrets{}, v1alpha1.OpenShiftNamespaces.Operator)
		if err == nil || !strings.Contains(err.Error(), test.want) || !errors.As(err, new(*ReferenceError)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Each key that the manifests use is a variable, except those that the settings name; the others are neither read into the version nor an error.
func TestSettings_AllKeysOfASecret(t *testing.T) {
	bundle := func(name, text string) extractor.Bundle {
		return extractor.Bundle{Metadata: extractor.Metadata{ProviderName: name}, Manifests: []byte(text)}
	}
	bundles := []extractor.Bundle{bundle("core", "a: ${TOKEN}"), bundle("aws", "a: ${TOKEN}\nb: ${REGION:=eu}\nc: ${ZONE:=a}\nd: ${LEVEL:=0}\n")}
	all := secretInNamespace("all", map[string][]byte{"TOKEN": []byte("hunter2"), "REGION": []byte("us"), "LEVEL": []byte("5"), "level": []byte("6"), "BINARY": {0xff}})
	for name, test := range map[string]struct {
		secret, component, want, err string
	}{
		"all keys":             {"all", "aws", "LEVEL=4 REGION=<secret:all/REGION> TOKEN=<secret:all/TOKEN>", ""},
		"no Secret":            {"missing", "aws", "", "spec.components refers to Secret " + v1alpha1.OpenShiftNamespaces.Operator + "/missing: not found"},
		"no key that is used":  {"other", "aws", "LEVEL=4", `spec.components[0].variablesFrom: Invalid value: "other": the Secret has no key`},
		"no key that is unset": {"set", "aws", "LEVEL=4", `spec.components[0].variablesFrom: Invalid value: "set": the Secret has no key`},
		"an unknown component": {"all", "azure", "LEVEL=4", `spec.components[0].name: Unsupported value: "azure"`},
	} {
		spec := v1alpha1.ClusterAPISpec{Components: []v1alpha1.ComponentSettings{{
			Name: test.component, Variables: []v1alpha1.Variable{{Name: "LEVEL", Value: new("4")}},
			VariablesFrom: &v1alpha1.VariablesSource{SecretRef: v1alpha1.SecretReference{Name: test.secret}},
		}}}
		r := reconcilerWith(t, all, secretInNamespace("other", map[string][]byte{"X": nil}), secretInNamespace("set", map[string][]byte{"LEVEL": nil}))
		settings, err := r.readCluster(t.Context(), spec).settings(spec, bundles, setting.Secrets{}, v1alpha1.OpenShiftNamespaces.Operator)
		if err == nil {
			err = settings.Check([]string{"core", "aws"}).ToAggregate()
		}
		if (test.err == "") != (err == nil) || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: error %v, want %q", name, err, test.err)
			continue
		}
		values, errs := settings.For(test.component).Values(nil, bundles[1].Manifests, false)
		var got []string
		for _, variable := range slices.Sorted(maps.Keys(values)) {
			got = append(got, variable+"="+values[variable])
		}
		if test.want != "" && (strings.Join(got, " ") != test.want || len(errs) > 0) {
			t.Errorf("%s: got %q, want %q, errors %v", name, got, test.want, errs)
		}
		for placeholder, value := range settings.Secrets.Values {
			if !strings.Contains(test.want, placeholder) || value != string(all.Data[strings.Trim(strings.TrimPrefix(placeholder, "<secret:all/"), ">")]) {
				t.Errorf("%s: %s is %q", name, placeholder, value)
			}
		}
		if spec.Components[0].VariablesFrom == nil || len(spec.Components[0].Variables) != 1 {
			t.Errorf("%s: the spec was changed", name)
		}
	}
}

// The same values have the same digest in each reconcile, because the salt is the one of the desired version. Without the Secret of
// that version, the salt is new.
func TestSettings_SaltOfTheDesiredVersion(t *testing.T) {
	r := reconcilerWith(t, secretInNamespace("aws", map[string][]byte{"token": []byte("hunter2")}))
	read := func() setting.Secrets {
		t.Helper()
		former, err := r.storage().formerSecrets(t.Context(), "4.22.0-1")
		if err != nil {
			t.Fatal(err)
		}
		settings, err := r.readCluster(t.Context(), referring().Spec).settings(referring().Spec, nil, former, v1alpha1.OpenShiftNamespaces.Operator)
		if err != nil || settings.Secrets.Values["<secret:aws/token>"] != "hunter2" {
			t.Fatalf("%v: %v", err, settings.Secrets.Values)
		}
		return settings.Secrets
	}
	first := read()
	if other := read(); other.Digest() == first.Digest() {
		t.Error("without a stored Secret: the same digest")
	}
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: "4.22.0-1", UID: "first"}}
	if err := r.storage().putSecret(t.Context(), revision.Secret(owner, first)); err != nil {
		t.Fatal(err)
	}
	if second := read(); second.Digest() != first.Digest() {
		t.Errorf("with the stored Secret: digests %s, %s", first.Digest(), second.Digest())
	}
}

// An existing Secret stays if it is the same, and is replaced if it has other values or belongs to a deleted ConfigMap.
func TestPutSecret_Existing(t *testing.T) {
	values := func(token string) setting.Secrets {
		return setting.Secrets{Salt: []byte("salt"), Values: map[string]string{"<secret:aws/token>": token}}
	}
	configMap := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "4.22.0-1", UID: "first"}}
	recreated := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "4.22.0-1", UID: "second"}}
	for name, wanted := range map[string]*corev1.Secret{
		"none": nil, "the same": revision.Secret(configMap, values("a")), "other values": revision.Secret(configMap, values("b")), "another owner": revision.Secret(recreated, values("a")),
	} {
		r := reconcilerWith(t, revision.Secret(configMap, values("a")))
		if err := r.storage().putSecret(t.Context(), wanted.DeepCopy()); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if wanted == nil {
			continue
		}
		found := &corev1.Secret{}
		if err := r.Live.Get(t.Context(), client.ObjectKeyFromObject(wanted), found); err != nil {
			t.Fatal(err)
		}
		if string(found.Data["values.json"]) != string(wanted.Data["values.json"]) || found.OwnerReferences[0].UID != wanted.OwnerReferences[0].UID {
			t.Errorf("%s: got %s of %s", name, found.Data, found.OwnerReferences[0].UID)
		}
	}
}
