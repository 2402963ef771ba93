// SPDX-License-Identifier: Apache-2.0

package registryconfig_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	configv1 "github.com/openshift/api/config/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/capi-installer/capi-installer/extractor/remote/fetch"
	"github.com/capi-installer/capi-installer/install/registryconfig"
)

// TestRegistries_ErrorsNameThePlace pulls from registries that fail, each in its way: the next step names an object that the cluster
// has, and no kind of OpenShift in any other cluster.
func TestRegistries_ErrorsNameThePlace(t *testing.T) {
	unknown, _, _ := tlsServer(t)
	private := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusUnauthorized) }))
	defer private.Close()
	hosts := map[string]string{}
	for name, server := range map[string]*httptest.Server{"unknown authority": unknown, "no credentials": private} {
		hosts[name] = server.Listener.Addr().String()
	}
	hosts["blocked"] = "blocked.example.com"

	openShift := &objects{}
	openShift.image.Spec.RegistrySources = configv1.RegistrySources{BlockedRegistries: []string{hosts["blocked"]}, InsecureRegistries: []string{hosts["no credentials"]}}
	config := &corev1.ConfigMap{Data: map[string]string{"registries.conf": "[[registry]]\nlocation = \"" + hosts["blocked"] + "\"\nblocked = true\n" +
		"[[registry]]\nlocation = \"" + hosts["no credentials"] + "\"\ninsecure = true\n"}}
	config.Namespace, config.Name = "installer", registryconfig.ConfigMapName
	for name, cluster := range map[string]struct {
		reader    client.Reader
		namespace string
		want      map[string]string
	}{
		"OpenShift": {openShift, "", map[string]string{
			"unknown authority": `to additionalTrustedCA of Image "cluster"`,
			"no credentials":    "to Secret openshift-config/pull-secret", "blocked": `in an ImageDigestMirrorSet or registrySources of Image "cluster"`,
		}},
		"Kubernetes": {fake.NewClientBuilder().WithObjects(config).Build(), "installer", map[string]string{
			"unknown authority": "to ConfigMap installer/capi-installer-registries",
			"no credentials":    "to Secret installer/capi-installer-pull-secret", "blocked": "a source in registries.conf in ConfigMap installer/capi-installer-registries",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			puller := &fetch.Client{Settings: (&registryconfig.Registries{Reader: cluster.reader, Namespace: cluster.namespace, TempDir: t.TempDir()}).Settings}
			for failure, host := range hosts {
				err := pull(t.Context(), puller, host)
				if err == nil || !strings.HasSuffix(err.Error(), cluster.want[failure]) {
					t.Errorf("%s: got %v; want a next step that ends with %s", failure, err, cluster.want[failure])
				}
			}
		})
	}
}

func pull(ctx context.Context, puller *fetch.Client, host string) error {
	image, err := puller.Open(ctx, host+"/provider@sha256:"+strings.Repeat("a", 64))
	if err == nil {
		_, err = image.Manifest(ctx, "manifest", v1.Descriptor{Digest: image.Digest()}, 1<<20)
	}
	return err
}
