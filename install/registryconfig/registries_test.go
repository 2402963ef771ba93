// SPDX-License-Identifier: Apache-2.0

package registryconfig_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	operatorv1alpha1 "github.com/openshift/api/operator/v1alpha1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/extractor/remote/mirror"
	"github.com/capi-installer/capi-installer/install/registryconfig"
)

// objects is a reader of a cluster that has only these objects.
type objects struct {
	err    error // returned by every read; nil is none
	policy operatorv1alpha1.ImageContentSourcePolicy
	secret corev1.Secret
	image  configv1.Image
	cas    map[string]string
	proxy  configv1.Proxy
}

func (o *objects) Get(_ context.Context, key client.ObjectKey, into client.Object, _ ...client.GetOption) error {
	switch into := into.(type) {
	case *corev1.Secret:
		if key.String() == "openshift-config/pull-secret" {
			o.secret.DeepCopyInto(into)
			return o.err
		}
	case *configv1.Image:
		o.image.DeepCopyInto(into)
		return o.err
	case *configv1.Proxy:
		o.proxy.DeepCopyInto(into)
		return o.err
	case *corev1.ConfigMap:
		if key.String() == "openshift-config/cas" {
			into.Data = o.cas
			return o.err
		}
	}
	return apierrors.NewNotFound(schema.GroupResource{}, key.Name)
}

func (o *objects) List(_ context.Context, into client.ObjectList, _ ...client.ListOption) error {
	if list, ok := into.(*operatorv1alpha1.ImageContentSourcePolicyList); ok {
		list.Items = []operatorv1alpha1.ImageContentSourcePolicy{o.policy}
	}
	return o.err
}

func sourcesOf(t *testing.T, rules *mirror.Rules, repository string) string {
	t.Helper()
	sources, err := rules.Sources(repository + "@sha256:" + strings.Repeat("a", 64))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, s := range sources {
		out = append(out, s.Image.Context().Name())
	}
	return strings.Join(out, " ")
}

func TestRegistries_MergesFilesAndObjects(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	o := &objects{secret: corev1.Secret{Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths": {"quay.io": {"username": "cluster"}}}`)}}}
	o.policy.Spec.RepositoryDigestMirrors = []operatorv1alpha1.RepositoryDigestMirrors{{Source: "quay.io/release", Mirrors: []string{"mirror.example.com/r"}}}
	o.proxy.Status.HTTPSProxy = "http://proxy.example.com:3128"
	r := &registryconfig.Registries{
		Reader: o, TempDir: filepath.Join(dir, "temp"),
		Conf:     &mirror.Files{Conf: write("registries.conf", "[[registry]]\nlocation = \"other.example.com\"\n[[registry.mirror]]\nlocation = \"m.example.com\"\n")},
		AuthFile: write("auth.json", `{"auths": {"quay.io": {"username": "file"}, "other.example.com": {"username": "file"}}}`),
	}
	access, err := r.Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for repository, want := range map[string]string{
		"quay.io/release/a": "mirror.example.com/r/a quay.io/release/a", "other.example.com/a": "m.example.com/a other.example.com/a",
	} {
		if got := sourcesOf(t, access.Mirrors, repository); got != want {
			t.Errorf("%s: got %s, want %s", repository, got, want)
		}
	}
	for repository, want := range map[string]string{"quay.io/release/a": "cluster", "other.example.com/a": "file", "elsewhere.example.com/a": ""} {
		if login, err := access.Keychain.Resolve(t.Context(), repository); err != nil || login.Username != want {
			t.Errorf("%s: got %q, %v, want %q", repository, login.Username, err, want)
		}
	}
}

func TestRegistries_FailsUntilFirstRead(t *testing.T) {
	o := &objects{err: errors.New("the API server is unavailable")}
	r := &registryconfig.Registries{Reader: o, TempDir: t.TempDir()}
	if _, err := r.Settings(t.Context()); err == nil || !strings.Contains(err.Error(), "reading the ImageDigestMirrorSets: the API server is unavailable") {
		t.Errorf("got %v", err)
	}
	o.err = nil
	if _, err := r.Settings(t.Context()); err != nil {
		t.Error(err)
	}
	o.err = errors.New("the API server is unavailable again")
	if _, err := r.Settings(t.Context()); err != nil {
		t.Errorf("got %v, want the previous settings", err)
	}
	if _, err := (&registryconfig.Registries{TempDir: t.TempDir()}).Settings(t.Context()); err != nil {
		t.Errorf("without a cluster: %v", err)
	}
}

func TestRegistries_IgnoresAnInvalidPullSecret(t *testing.T) {
	o := &objects{secret: corev1.Secret{Data: map[string][]byte{corev1.DockerConfigJsonKey: []byte(`{"auths": {"bad.example.com": {"auth": "!"}, "quay.io": {"username": "cluster"}}}`)}}}
	o.image.Spec.AdditionalTrustedCA.Name, o.cas = "cas", map[string]string{"a.example.com": "no certificate"}
	access, err := (&registryconfig.Registries{Reader: o, TempDir: t.TempDir()}).Settings(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if login, err := access.Keychain.Resolve(t.Context(), "quay.io/a"); err != nil || login.Username != "cluster" {
		t.Errorf("got %q, %v", login.Username, err)
	}
}
