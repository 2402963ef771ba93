// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"regexp"
	"slices"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/capi-installer/capi-installer/extractor"
)

// metadataRules are about the metadata that can be read but do not do what they should.
var metadataRules = []Rule{{
	ID:       "metadata/provider-name-format",
	Severity: Warning,
	Source:   clusterctl("Adding a provider to clusterctl"),
	Why:      "clusterctl takes no other names. The installer makes the names of its phases of it, and of another name it makes one that people have to guess.",
	Fix:      "Use at most 63 lower case letters, digits and dashes, with a letter or digit at both ends, such as cluster-api-provider-aws.",
	Check: func(b *Bundle) []Finding {
		if namePattern.MatchString(b.Metadata.ProviderName) {
			return nil
		}
		return metadataFinding("providerName", "%q is no name for clusterctl", b.Metadata.ProviderName)
	},
}, {
	ID:       "metadata/provider-version-semver",
	Severity: Warning,
	Source:   clusterctl("Creating a provider repository on GitHub"),
	Why:      "Tools and people compare versions; what is none cannot be compared.",
	Fix:      "Write a semantic version with a leading v, such as v2.10.0.",
	Check: func(b *Bundle) []Finding {
		if semverPattern.MatchString(b.Metadata.ProviderVersion) {
			return nil
		}
		return metadataFinding("providerVersion", "%q is no semantic version with a leading v", b.Metadata.ProviderVersion)
	},
}, {
	ID:       "metadata/ocp-platform-known",
	Severity: Error,
	Source:   ours("Files"),
	Why:      "A provider is installed where its platform is that of the cluster, letter by letter. With a platform that no cluster has it is installed nowhere.",
	Fix:      "Write the platform as the Infrastructure object of a cluster does, such as AWS, BareMetal or VSphere; leave it out if the provider is for every platform.",
	Check: func(b *Bundle) []Finding {
		platform := b.Metadata.OCPPlatform
		if platform == "" || slices.Contains(platforms, configv1.PlatformType(platform)) {
			return nil
		}
		return metadataFinding("ocpPlatform", "%q is no platform of OpenShift", platform)
	},
}, {
	ID:       "metadata/ocp-platform-required",
	Severity: Warning,
	Source:   ours("Files"),
	Why:      "An infrastructure provider without a platform is installed on every cluster, whatever the cloud.",
	Fix:      "Name the platform that the provider is for.",
	Check: func(b *Bundle) []Finding {
		if b.Metadata.ProviderType != extractor.Infrastructure || b.Metadata.OCPPlatform != "" {
			return nil
		}
		return metadataFinding("ocpPlatform", "an infrastructure provider is for a platform")
	},
}}

var (
	namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	// From https://semver.org, with a leading v.
	semverPattern = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
)

// platforms are those that the Infrastructure object of a cluster may name.
var platforms = []configv1.PlatformType{
	configv1.AWSPlatformType, configv1.AzurePlatformType, configv1.BareMetalPlatformType, configv1.GCPPlatformType,
	configv1.LibvirtPlatformType, configv1.OpenStackPlatformType, configv1.NonePlatformType, configv1.VSpherePlatformType,
	configv1.OvirtPlatformType, configv1.IBMCloudPlatformType, configv1.KubevirtPlatformType, configv1.EquinixMetalPlatformType,
	configv1.PowerVSPlatformType, configv1.AlibabaCloudPlatformType, configv1.NutanixPlatformType, configv1.ExternalPlatformType,
}

func metadataFinding(field, format string, arguments ...any) []Finding {
	return []Finding{{File: MetadataFile, Field: field, Message: fmt.Sprintf(format, arguments...)}}
}
