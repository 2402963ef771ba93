// SPDX-License-Identifier: Apache-2.0

package version

import (
	"errors"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
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
		_, err := reconcilerWith(t, test.objects...).readCluster(t.Context(), referring().Spec).settings(referring().Spec, setting.Secrets{}, v1alpha1.OpenShiftNamespaces.Operator)
		if err == nil || !strings.Contains(err.Error(), test.want) || !errors.As(err, new(*ReferenceError)) {
			t.Errorf("%s: %v", name, err)
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
		settings, err := r.readCluster(t.Context(), referring().Spec).settings(referring().Spec, former, v1alpha1.OpenShiftNamespaces.Operator)
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
