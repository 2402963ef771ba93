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
	"github.com/capi-installer/capi-installer/install/reason"
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
		r := reconcilerWith(t, test.objects...)
		_, _, err := references{r.Client, r.storage()}.settings(t.Context(), referring())
		if err == nil || !strings.Contains(err.Error(), test.want) || settingsOutcome(err).Reason != reason.ReferenceMissing {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := settingsOutcome(errors.New("timeout")).Reason; got != reason.WriteFailed {
		t.Errorf("an error of the API server has the reason %s", got)
	}
}

// The same values have the same digest in each reconcile, because the salt is the one of the desired version. Without the Secret of
// that version, the salt is new.
func TestSettings_SaltOfTheDesiredVersion(t *testing.T) {
	source := secretInNamespace("aws", map[string][]byte{"token": []byte("hunter2")})
	r := reconcilerWith(t, source)
	first, _, err := (references{r.Client, r.storage()}).settings(t.Context(), referring())
	if err != nil || r.Mask.Text("a hunter2 b") != "a <secret:aws/token> b" {
		t.Fatalf("%v: %q", err, r.Mask.Text("a hunter2 b"))
	}
	if other, _, err := (references{r.Client, r.storage()}).settings(t.Context(), referring()); err != nil || other.Secrets.Digest() == first.Secrets.Digest() {
		t.Errorf("without a stored Secret: %v, the same digest", err)
	}
	owner := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: v1alpha1.OpenShiftNamespaces.Operator, Name: "4.22.0-1", UID: "first"}}
	if err := r.storage().putSecret(t.Context(), revision.Secret(owner, first.Secrets)); err != nil {
		t.Fatal(err)
	}
	second, former, err := (references{r.Client, r.storage()}).settings(t.Context(), referring())
	if err != nil || second.Secrets.Digest() != first.Secrets.Digest() || former.Digest() != first.Secrets.Digest() {
		t.Errorf("with the stored Secret: %v, digests %s, %s, %s", err, first.Secrets.Digest(), second.Secrets.Digest(), former.Digest())
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
