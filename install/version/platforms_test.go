// SPDX-License-Identifier: Apache-2.0

package version

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/api/features"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/reason"
)

// gate is the feature gate of Cluster API; the gate of a platform has the platform's name in addition.
const gate = "ClusterAPIMachineManagement"

// decided are the inputs of docs/maintainers/openshift-objects.md, for a platform and release 4.23.0.
var decided = map[string]func(platform string) clusterInputs{
	"feature set Default":              ofSet(features.SelfManaged, configv1.Default),
	"feature set OKD":                  ofSet(features.SelfManaged, configv1.OKD),
	"feature set TechPreviewNoUpgrade": ofSet(features.SelfManaged, configv1.TechPreviewNoUpgrade),
	"feature set DevPreviewNoUpgrade":  ofSet(features.SelfManaged, configv1.DevPreviewNoUpgrade),
	"feature set CustomNoUpgrade with the platform's gate": func(platform string) clusterInputs {
		return with(platform, entry("4.23.0", []string{gate + platform}, nil))
	},
	"feature set CustomNoUpgrade with ClusterAPIMachineManagement only": func(platform string) clusterInputs {
		return with(platform, entry("4.23.0", []string{gate}, []string{gate + platform}))
	},
	"the release's entry lacks the gate": func(platform string) clusterInputs { return with(platform, entry("4.23.0", []string{gate}, nil)) },
	"only the former release has an entry": func(platform string) clusterInputs {
		return with(platform, entry("4.22.0", []string{gate, gate + platform}, nil))
	},
	"the former release's entry enables the gate, the release's disables it": func(platform string) clusterInputs {
		return with(platform, entry("4.22.0", []string{gate + platform}, nil), entry("4.23.0", nil, []string{gate + platform}))
	},
	"no release has an entry": func(platform string) clusterInputs { return with(platform) },
	"no FeatureGate object": func(platform string) clusterInputs {
		in := with(platform)
		in.gates.Name = ""
		return in
	},
	"control plane topology SingleReplica, feature set TechPreviewNoUpgrade": func(platform string) clusterInputs {
		in := ofSet(features.SelfManaged, configv1.TechPreviewNoUpgrade)(platform)
		in.infrastructure.Status.ControlPlaneTopology = configv1.SingleReplicaTopologyMode
		return in
	},
	"control plane topology External, HyperShift's feature set TechPreviewNoUpgrade": func(platform string) clusterInputs {
		in := ofSet(features.Hypershift, configv1.TechPreviewNoUpgrade)(platform)
		in.infrastructure.Status.ControlPlaneTopology = configv1.ExternalTopologyMode
		return in
	},
	"no platform in the status of Infrastructure": func(platform string) clusterInputs {
		in := with(platform, entry("4.23.0", []string{gate + platform}, nil))
		in.infrastructure.Status.PlatformStatus = nil
		return in
	},
	"no API config.openshift.io, as on MicroShift": func(string) clusterInputs { return clusterInputs{} },
}

// with returns the inputs of a cluster on a platform, with entries of releases in FeatureGate cluster.
func with(platform string, entries ...configv1.FeatureGateDetails) (in clusterInputs) {
	in.infrastructure.Name, in.gates.Name = configName, configName
	in.infrastructure.Status.PlatformStatus = &configv1.PlatformStatus{Type: configv1.PlatformType(platform)}
	in.gates.Status.FeatureGates = entries
	return in
}

// entry returns the feature gates of a release.
func entry(release string, enabled, disabled []string) configv1.FeatureGateDetails {
	out := configv1.FeatureGateDetails{Version: release}
	for _, name := range enabled {
		out.Enabled = append(out.Enabled, configv1.FeatureGateAttributes{Name: configv1.FeatureGateName(name)})
	}
	for _, name := range disabled {
		out.Disabled = append(out.Disabled, configv1.FeatureGateAttributes{Name: configv1.FeatureGateName(name)})
	}
	return out
}

// ofSet returns the inputs with a feature set of OpenShift.
func ofSet(profile features.ClusterProfileName, set configv1.FeatureSet) func(platform string) clusterInputs {
	return func(platform string) clusterInputs {
		var enabled, disabled []string
		known := features.FeatureSets(4, profile, set)
		for _, feature := range known.Enabled {
			enabled = append(enabled, string(feature.FeatureGateAttributes.Name))
		}
		for _, feature := range known.Disabled {
			disabled = append(disabled, string(feature.FeatureGateAttributes.Name))
		}
		return with(platform, entry("4.23.0", enabled, disabled))
	}
}

// The installer decides as the table of the documentation says, which has the decisions of cluster-capi-operator beside.
func TestPlatforms_AsClusterCAPIOperator(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile(filepath.Join("..", "..", "docs", "maintainers", "openshift-objects.md"))
	if err != nil {
		t.Fatal(err)
	}
	words := map[reason.Reason]string{reason.AsExpected: "installs", reason.UnsupportedPlatform: "unsupported", reason.PlatformUnknown: "waits"}
	_, table, _ := strings.Cut(string(page), "## Decisions about the platform")
	table, _, _ = strings.Cut(table, "\n## ")
	rows := 0
	for line := range strings.Lines(table) {
		cells := strings.Split(strings.Trim(line, "| \n"), " | ")
		inputs := decided[cells[0]]
		if len(cells) != 4 || cells[0] == "input" {
			continue
		}
		rows++
		if inputs == nil {
			t.Errorf("no input %q", cells[0])
			continue
		}
		platforms := strings.Split(cells[1], ", ")
		if cells[1] == "the seven" {
			platforms = []string{"AWS", "Azure", "BareMetal", "GCP", "OpenStack", "PowerVS", "VSphere"}
		}
		for _, platform := range platforms {
			found, outcome := inputs(platform).platforms("4.23.0", &v1alpha1.ClusterAPI{})
			if word := words[outcome.Reason]; word == "" || !strings.HasPrefix(cells[3], word) || (word == "installs") != slices.Contains(found, platform) {
				t.Errorf("%s, %s: %s for %v, want %s", cells[0], platform, outcome.Reason, found, cells[3])
			}
		}
	}
	if rows <= len(decided) {
		t.Errorf("%d rows in the table, want more than %d", rows, len(decided))
	}
}
