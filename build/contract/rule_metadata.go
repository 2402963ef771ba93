// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"
	configv1 "github.com/openshift/api/config/v1"

	"github.com/capi-installer/capi-installer/extractor"
)

// metadataRules are about the metadata that can be read but do not do what they should.
var metadataRules = []Rule{{
	ID:       "metadata/provider-name-format",
	Severity: Warning,
	Only:     FormBundle,
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
	Only:     FormBundle,
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
	Only:     FormBundle,
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
	Only:     FormBundle,
	Source:   ours("Files"),
	Why:      "An infrastructure provider without a platform is installed on every cluster, whatever the cloud.",
	Fix:      "Name the platform that the provider is for.",
	Check: func(b *Bundle) []Finding {
		if b.Metadata.ProviderType != extractor.Infrastructure || b.Metadata.OCPPlatform != "" {
			return nil
		}
		return metadataFinding("ocpPlatform", "an infrastructure provider is for a platform")
	},
}, {
	ID:       "metadata/provider-name-installable",
	Severity: Error,
	Only:     FormBundle,
	Source:   ours("Files"),
	Why:      "The installer names the phases of a provider after it, <name> and <name>-crds, which must be DNS labels.",
	Fix:      "Begin the name with a letter, and use at most 58 characters.",
	Check: func(b *Bundle) []Finding {
		if name := b.Metadata.ProviderName; len(name) > 58 || name != "" && (name[0] < 'a' || name[0] > 'z') {
			return metadataFinding("providerName", "%q does not begin with a letter, or has more than 58 characters", name)
		}
		return nil
	},
}, {
	ID:       "metadata/provider-name-label-length",
	Severity: Warning,
	Only:     FormBundle,
	Source:   clusterctl("Labels"),
	Why:      "The value of the label cluster.x-k8s.io/provider is the type and the name, and may have 63 characters.",
	Fix:      "Use a shorter name.",
	Check: func(b *Bundle) []Finding {
		if label := ProviderLabel(b.Metadata); len(label) > 63 {
			return metadataFinding("providerName", "the label would be %s, which has %d characters", label, len(label))
		}
		return nil
	},
}, {
	ID:       "metadata/provider-name-core",
	Severity: Error,
	Only:     FormBundle,
	Source:   clusterctl("Adding a provider to clusterctl"),
	Why:      "cluster-api is the name of the core provider, and of no other. clusterctl refuses another type under this name, and core under another.",
	Fix:      "Name core cluster-api, and others cluster-api-provider-<name>.",
	Check: func(b *Bundle) []Finding {
		isCore := b.Metadata.ProviderType == extractor.Core
		if isCore == (b.Metadata.ProviderName == "cluster-api") || b.Metadata.ProviderType == "" {
			return nil
		}
		return metadataFinding("providerName", "the provider %s is of type %s", b.Metadata.ProviderName, b.Metadata.ProviderType)
	},
}, {
	ID:       "metadata/provider-type-matches-content",
	Severity: Warning,
	Only:     FormBundle,
	Source:   ours("Files"),
	Why:      "Providers are installed in the order of their types, and a cluster needs core and infrastructure. A bundle of another type than it says comes at the wrong time.",
	Fix:      "Correct providerType, or add what a provider of the type has.",
	Check:    checkTypeMatches,
}, {
	ID:       "metadata/image-name-present",
	Severity: Error,
	Only:     FormBundle,
	Source:   ours("Images"),
	Why:      "Without the placeholder imageName no container gets the image of the release.",
	Fix:      "Name the placeholder in imageName, and use it as the image of the container that runs the provider.",
	Check: func(b *Bundle) []Finding {
		if b.Metadata.ImageName != "" || len(b.Origin.ConfigMaps) > 0 { // where the images are those of the release
			return nil
		}
		for _, o := range b.Objects {
			for range containers(o) {
				return metadataFinding("imageName", "it is empty, but %s runs containers", o)
			}
		}
		return nil
	},
}, {
	ID:       "metadata/image-name-reference",
	Severity: Error,
	Only:     FormBundle,
	Source:   ours("Images"),
	Why:      "The placeholder stands where an image does, so it has to be the name of one: with its registry, so that it is not taken for another.",
	Fix:      "Write a name such as registry.ci.openshift.org/openshift:aws-cluster-api-controllers.",
	Check:    checkImageName,
}, {
	ID:       "metadata/image-name-manager",
	Severity: Warning,
	Only:     FormBundle,
	Source:   ours("Images"),
	Why:      "The image of the release is the provider's. If the container manager runs another one, its own is probably forgotten.",
	Fix:      "Use imageName as the image of the container manager.",
	Check:    checkManagerImage,
}, {
	ID:       "installer/size-configmap",
	Severity: Warning,
	Only:     FormBundle,
	Source:   ours("Files"),
	Why:      "A ConfigMap holds 1 MiB. Manifests that are longer travel in the image only, or have to be compressed or divided for the transport in ConfigMaps.",
	Fix:      "Nothing, if the bundle is in an image; \"capi-manifests generate --transport configmap\" divides it.",
	Check: func(b *Bundle) []Finding {
		if b.size <= maxConfigMap || len(b.Origin.ConfigMaps) > 0 {
			return nil
		}
		return []Finding{{File: ManifestsFile, Line: 1, Message: fmt.Sprintf("the manifests have %d bytes, more than a ConfigMap holds", b.size)}}
	},
}}

var (
	namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)
	// From https://semver.org, with a leading v.
	semverPattern = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
)

// maxConfigMap is how many bytes the data of a ConfigMap may have.
const maxConfigMap = 1 << 20

// labelPrefixes begin the value of the provider label, by type.
var labelPrefixes = map[extractor.ProviderType]string{
	extractor.Infrastructure: "infrastructure-", extractor.ControlPlane: "control-plane-", extractor.Bootstrap: "bootstrap-",
	extractor.IPAM: "ipam-", extractor.RuntimeExtension: "runtime-extension-", extractor.Addon: "addon-",
}

// ProviderLabel is the value of the label cluster.x-k8s.io/provider that clusterctl would give the objects of a provider.
func ProviderLabel(m extractor.Metadata) string {
	if m.ProviderType == extractor.Core {
		return "cluster-api"
	}
	name, prefix := m.ProviderName, labelPrefixes[m.ProviderType]
	for _, usual := range []string{"cluster-api-provider-", "cluster-api-", prefix} {
		name = strings.TrimPrefix(name, usual)
	}
	return prefix + name
}

// checkTypeMatches leaves to other rules what the types with contracts need.
func checkTypeMatches(b *Bundle) []Finding {
	switch b.Metadata.ProviderType {
	case extractor.Core:
		if len(b.definitions) > 0 && b.defined("cluster.x-k8s.io", "Cluster") == nil {
			return metadataFinding("providerType", "core defines the kind Cluster, which this bundle does not")
		}
	case extractor.RuntimeExtension, extractor.Addon:
		if kinds := b.withRole(); len(kinds) > 0 {
			return metadataFinding("providerType", "the bundle has the %s %s, which a provider of type %s has not", kinds[0].Role, kinds[0].Defines, b.Metadata.ProviderType)
		}
	default: // rules of their contracts
	}
	return nil
}

func checkImageName(b *Bundle) []Finding {
	written := b.Metadata.ImageName
	if written == "" {
		return nil // another rule
	}
	_, err := name.ParseReference(written)
	host, _, found := strings.Cut(written, "/")
	switch {
	case err != nil:
		return metadataFinding("imageName", "%q is no image", written)
	case !found || !strings.ContainsAny(host, ".:") && host != "localhost":
		return metadataFinding("imageName", "%q names no registry", written)
	}
	return nil
}

func checkManagerImage(b *Bundle) (findings []Finding) {
	if b.Metadata.ImageName == "" || len(checkImageNameOccurs(b)) > 0 {
		return nil // another rule
	}
	for _, o := range b.ofKind(deploymentKind) {
		for container := range containers(o) {
			image := container.At("image")
			if container.At("name").Text() == "manager" && image.Text() != b.Metadata.ImageName {
				findings = append(findings, image.finding("the container manager runs %s", image.Text()))
			}
		}
	}
	return findings
}

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
