// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/test/fixture"
)

// gates writes a feature gate of a platform and release; platform is empty for no gate.
func (h *harness) gates(release string, platform configv1.PlatformType, enabled bool) {
	h.Helper()
	object := &configv1.FeatureGate{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	h.must(client.IgnoreAlreadyExists(h.Create(context.Background(), object)))
	h.must(h.Get(context.Background(), client.ObjectKeyFromObject(object), object))
	details := configv1.FeatureGateDetails{Version: release}
	gates := []configv1.FeatureGateAttributes{{Name: configv1.FeatureGateName("ClusterAPIMachineManagement" + string(platform))}}
	if enabled {
		details.Enabled = gates
	} else {
		details.Disabled = gates
	}
	object.Status.FeatureGates = []configv1.FeatureGateDetails{details}
	h.must(h.Status().Update(context.Background(), object))
}

// setPlatform replaces the platform in the kustomization and applies it.
func (k *kubernetes) setPlatform(before, after string) {
	k.Helper()
	file := filepath.Join(k.folder, "kustomization.yaml")
	content, err := os.ReadFile(file)
	k.must(err)
	text := strings.Replace(string(content), "platform="+before+"\n", "platform="+after+"\n", 1)
	if text == string(content) {
		k.Fatalf("the kustomization has no platform=%s:\n%s", before, content)
	}
	k.must(os.WriteFile(file, []byte(text), 0o600))
	k.kubectl("apply", "-k", k.folder)
}

// installedDeployments returns the names of the providers whose Deployments exist.
func (h *harness) installedDeployments() (providers []string) {
	h.Helper()
	for _, name := range h.names() {
		if provider, found := strings.CutPrefix(name, "Deployment "); found {
			providers = append(providers, strings.TrimSuffix(provider, "-controller-manager"))
		}
	}
	return providers
}

func TestKubernetes_SeveralPlatforms(t *testing.T) {
	k := newKubernetes(t)
	docker := fixture.Synthetic{Name: "cluster-api-provider-docker", Platform: "Docker", Version: "v1.0.0"}
	hetzner := fixture.Synthetic{Name: "cluster-api-provider-hetzner", Platform: "Hetzner", Version: "v1.0.0"}
	linode := fixture.Synthetic{Name: "cluster-api-provider-linode", Platform: "Linode", Version: "v1.0.0"}
	k.release(core("v1.0.0"), docker, linode)
	k.setPlatform("None", "Docker,Hetzner")
	p := k.run()
	k.reports("VersionDegraded", "ComponentMissing", `no provider of type infrastructure found for platform "Hetzner"`, "cluster-api-provider-linode for Linode")
	if found := k.installedDeployments(); found != nil {
		t.Errorf("installed without a provider for Hetzner: %v", found)
	}
	p.terminate()

	k.release(core("v1.0.0"), docker, linode, hetzner)
	k.kubectl("apply", "-k", k.folder)
	p = k.run()
	k.settled("1.0.0-1")
	if found := k.installedDeployments(); !slices.Equal(found, []string{"cluster-api", "cluster-api-provider-docker", "cluster-api-provider-hetzner"}) {
		t.Errorf("installed: %v", found)
	}
	p.terminate()

	k.setPlatform("Docker,Hetzner", "Hetzner")
	p = k.run()
	k.settled("1.0.0-2")
	if found := k.installedDeployments(); !slices.Equal(found, []string{"cluster-api", "cluster-api-provider-hetzner"}) {
		t.Errorf("installed after Docker was removed: %v", found)
	}
	p.terminate()
}
