// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/test/fixture"
)

// predecessorInstalls says of each platform of OpenShift whether cluster-capi-operator installs Cluster API there if the feature gate
// ClusterAPIMachineManagement<platform> is enabled; it installs nothing if the gate is disabled. It starts on no platform if it finds no gates of
// its release, or not the gate of the platform.
var predecessorInstalls = map[configv1.PlatformType]bool{
	"AWS": true, "Azure": true, "BareMetal": true, "GCP": true, "OpenStack": true, "PowerVS": true, "VSphere": true, "AlibabaCloud": false, "EquinixMetal": false,
	"External": false, "IBMCloud": false, "KubeVirt": false, "Libvirt": false, "None": false, "Nutanix": false, "oVirt": false,
}

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

// skipped waits until the ClusterOperator is as on a platform where nothing is installed: available, at rest, and with the version of the release.
func (h *harness) skipped(platform configv1.PlatformType, release string) {
	h.Helper()
	h.eventually("nothing is to be installed on platform "+string(platform), func() error {
		operator := &configv1.ClusterOperator{}
		if err := h.Get(context.Background(), client.ObjectKey{Name: v1alpha1.ClusterOperatorName}, operator); err != nil {
			return err
		}
		want := map[configv1.ClusterStatusConditionType]string{"Available": "True UnsupportedPlatform", "Progressing": "False AsExpected", "Degraded": "False AsExpected", "Upgradeable": "True AsExpected"}
		named := false
		for _, condition := range operator.Status.Conditions {
			if expected := want[condition.Type]; expected != "" && expected != string(condition.Status)+" "+condition.Reason {
				return fmt.Errorf("conditions: %v", operator.Status.Conditions)
			}
			named = named || condition.Type == "Available" && strings.Contains(condition.Message, "platform "+string(platform))
		}
		if len(operator.Status.Versions) != 1 || operator.Status.Versions[0] != (configv1.OperandVersion{Name: "operator", Version: release}) || !named {
			return fmt.Errorf("versions %v, conditions %v", operator.Status.Versions, operator.Status.Conditions)
		}
		return nil
	})
	if names := h.names(); len(names) > 0 {
		h.Errorf("platform %s: installed %v", platform, names)
	}
}

// TestPlatforms_AsThePredecessor: the decision about each platform is cluster-capi-operator's, whatever the images of the release are.
func TestPlatforms_AsThePredecessor(t *testing.T) {
	h := newHarness(t)
	t.Cleanup(func() {
		h.platform(configv1.AWSPlatformType)
		h.must(h.Delete(context.Background(), &configv1.FeatureGate{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}))
	})
	providers := []fixture.Synthetic{core("v1.0.0"), aws("v1.0.0"), {Name: "operator", Type: extractor.Addon, Version: "v1.0.0"}}
	for platform, installs := range predecessorInstalls {
		if installs && platform != configv1.AWSPlatformType {
			providers = append(providers, fixture.Synthetic{Name: "cluster-api-provider-" + strings.ToLower(string(platform)), Platform: string(platform), Version: "v1.0.0"})
		}
	}
	all, few := h.imagesOf(providers...), h.imagesOf(core("v1.0.0"), aws("v1.0.0"))
	withoutBundle, unreadable := map[string]string{"empty": h.emptyImage()}, map[string]string{}
	for key, reference := range few {
		withoutBundle[key], unreadable[key] = reference, withDigest(reference, "1")
	}
	h.writeImages(unreadable)
	h.gates("4.22.0", "AWS", false)
	p := h.start("4.22.0")
	for platform, installs := range predecessorInstalls {
		h.gates("4.22.0", platform, true)
		h.platform(platform)
		if installs {
			h.reports("VersionDegraded", "ImageUnreadable", strings.Repeat("1", 64))
			h.gates("4.22.0", platform, false)
			h.skipped(platform, "4.22.0")
			h.gates("4.21.0", platform, false)
			h.reports("VersionProgressing", "PlatformUnknown", "4.22.0")
			h.gates("4.22.0", "", false)
		}
		h.skipped(platform, "4.22.0")
	}
	p.terminate()
	for number, images := range []map[string]string{all, few, withoutBundle} {
		release := fmt.Sprintf("4.22.%d", number+1)
		h.writeImages(images)
		p := h.start(release)
		for platform, installs := range predecessorInstalls {
			h.gates(release, platform, !installs)
			h.platform(platform)
			h.skipped(platform, release)
		}
		p.terminate()
	}
	h.writeImages(all)
	h.gates("4.23.0", "GCP", true)
	h.platform(configv1.GCPPlatformType)
	h.start("4.23.0").settle("4.23.0-1", h)
	if names := h.installedDeployments(); !slices.Equal(names, []string{"cluster-api", "cluster-api-provider-gcp", "operator"}) {
		t.Errorf("installed: %v", names)
	}
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
