// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"regexp"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/google/go-containerregistry/pkg/name"
	"go.yaml.in/yaml/v3"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// metadataRules are the rules of the theme "metadata".
var metadataRules = only(contract.FormBundle, []contract.Rule{{
	ID:       "metadata/image-name-occurs",
	Severity: contract.Error,
	Source:   ours("Images"),
	Why:      "imageName is the placeholder for the provider's own image. If no container uses it, the image of the release never runs.",
	Fix:      "Use imageName as the image of the container that runs the provider, or correct imageName in the metadata.",
	Check:    checkImageNameOccurs,
}, {
	ID:       "metadata/image-name-only-in-images",
	Severity: contract.Error,
	Source:   ours("Images"),
	Why:      "The installer replaces the placeholder only if it is the whole image of a container, argument, or value of an environment variable. It rejects a placeholder in another position, because that image cannot be pulled.",
	Fix:      "Make the placeholder the whole value, for example by giving a flag and its value as two arguments.",
	Check:    checkLeftovers,
}, {
	ID:       "metadata/parseable",
	Checker:  contract.CheckerExtractor,
	Severity: contract.Error,
	Source:   ours("Files"),
	Why:      "Parsers read ambiguous metadata differently, such as duplicate keys.",
	Fix:      "Write one object with unique keys and strings as values.",
}, {
	ID:       "metadata/unknown-field",
	Checker:  contract.CheckerExtractor,
	Severity: contract.Error,
	Source:   ours("Files"),
	Why:      "An unknown key is usually misspelled, and its value would be silently lost.",
	Fix:      "Use the exact keys in the message.",
}, {
	ID:       "metadata/required-field",
	Checker:  contract.CheckerExtractor,
	Severity: contract.Error,
	Source:   ours("Files"),
	Why:      "Without name, type, version and content ID the installer cannot identify, order or verify the bundle.",
	Fix:      "Add the key; \"capi-manifests generate\" writes all of them.",
}, {
	ID:       "metadata/field-valid",
	Checker:  contract.CheckerExtractor,
	Severity: contract.Error,
	Source:   ours("Files"),
	Why:      "The name becomes a part of object names, and the type determines the install order. The installer rejects other values.",
	Fix:      "Correct the value in the message.",
}, {
	ID:       "metadata/content-id-matches",
	Checker:  contract.CheckerExtractor,
	Severity: contract.Error,
	Source:   ours("Files"),
	Why:      "contentID is the digest of the manifests, byte for byte. If it differs, one of the two files was changed after the build.",
	Fix:      "Regenerate the manifests instead of editing them; keep git and editors from changing line endings.",
}, {
	ID:       "metadata/provider-name-format",
	Severity: contract.Warning,
	Source:   clusterctl("Adding a provider to clusterctl"),
	Why:      "clusterctl rejects other names. The installer derives the names of its phases from this name.",
	Fix:      "Use at most 63 lower case letters, digits and dashes, with a letter or digit at both ends, such as cluster-api-provider-aws.",
	Check: func(b *contract.Bundle) []contract.Finding {
		if namePattern.MatchString(b.Metadata.ProviderName) {
			return nil
		}
		return metadataFinding("providerName", "invalid provider name %q: want at most 63 lower case letters, digits and dashes", b.Metadata.ProviderName)
	},
}, {
	ID:       "metadata/provider-version-semver",
	Severity: contract.Warning,
	Source:   clusterctl("Creating a provider repository on GitHub"),
	Why:      "Tools and people compare versions; an invalid version cannot be compared.",
	Fix:      "Write a semantic version with a leading v, such as v2.10.0.",
	Check: ofProviders(func(b *contract.Bundle) []contract.Finding {
		if contract.IsProviderVersion(b.Metadata.ProviderVersion) {
			return nil
		}
		return metadataFinding("providerVersion", "invalid version %q: want a semantic version with a leading v", b.Metadata.ProviderVersion)
	}),
}, {
	ID:       "metadata/ocp-platform-known",
	Severity: contract.Error,
	Source:   ours("Files"),
	Why:      "The installer compares the platform with the platform of the cluster, case-sensitively. It never installs a provider with an unknown platform.",
	Fix:      "Write the platform as the Infrastructure object of a cluster does, such as AWS, BareMetal or VSphere, or with the profile kubernetes any name, such as Docker; leave it out if the provider is for every platform.",
	Check: func(b *contract.Bundle) []contract.Finding {
		platform := b.Metadata.OCPPlatform
		isOther := b.Metadata.ClusterProfile == extractor.Kubernetes && extractor.IsPlatformName(platform)
		if platform == "" || isOther || slices.Contains(contract.Platforms, configv1.PlatformType(platform)) {
			return nil
		}
		return metadataFinding("ocpPlatform", "unknown OpenShift platform %q", platform)
	},
}, {
	ID:       "metadata/ocp-platform-required",
	Severity: contract.Warning,
	Source:   ours("Files"),
	Why:      "An infrastructure provider without a platform is installed on every cluster, on every cloud.",
	Fix:      "Name the platform that the provider is for.",
	Check: func(b *contract.Bundle) []contract.Finding {
		if b.Metadata.ProviderType != extractor.Infrastructure || b.Metadata.OCPPlatform != "" {
			return nil
		}
		return metadataFinding("ocpPlatform", "an infrastructure provider must name its platform")
	},
}, {
	ID:       "metadata/provider-name-installable",
	Severity: contract.Error,
	Source:   ours("Files"),
	Why:      "The installer names the phases of a provider after it: <name> and <name>-crds. Both must be DNS labels.",
	Fix:      "Begin the name with a letter, and use at most 58 characters.",
	Check: func(b *contract.Bundle) []contract.Finding {
		if name := b.Metadata.ProviderName; len(name) > 58 || name != "" && (name[0] < 'a' || name[0] > 'z') {
			return metadataFinding("providerName", "invalid name %q: want a letter first and at most 58 characters", name)
		}
		return nil
	},
}, {
	ID:       "metadata/provider-name-label-length",
	Severity: contract.Warning,
	Source:   clusterctl("Labels"),
	Why:      "The value of the label cluster.x-k8s.io/provider consists of the type and the name, and has at most 63 characters.",
	Fix:      "Use a shorter name.",
	Check: func(b *contract.Bundle) []contract.Finding {
		if label := contract.ProviderLabel(b.Metadata); len(label) > 63 {
			return metadataFinding("providerName", "the label would be %s, which has %d characters", label, len(label))
		}
		return nil
	},
}, {
	ID:       "metadata/provider-name-core",
	Severity: contract.Error,
	Source:   clusterctl("Adding a provider to clusterctl"),
	Why:      "Only the core provider has the name cluster-api. clusterctl rejects another type with this name, and core with another name.",
	Fix:      "Name the core provider cluster-api, and others cluster-api-provider-<name>.",
	Check: func(b *contract.Bundle) []contract.Finding {
		isCore := b.Metadata.ProviderType == extractor.Core
		if isCore == (b.Metadata.ProviderName == "cluster-api") || b.Metadata.ProviderType == "" {
			return nil
		}
		return metadataFinding("providerName", "the provider %s is of type %s", b.Metadata.ProviderName, b.Metadata.ProviderType)
	},
}, {
	ID:       "metadata/provider-type-matches-content",
	Severity: contract.Warning,
	Source:   ours("Files"),
	Why:      "Providers are installed in the order of their types, and a cluster requires core and infrastructure. A bundle with a wrong type is installed too early or too late.",
	Fix:      "Correct providerType, or add the objects of a provider of the type.",
	Check:    checkTypeMatches,
}, {
	ID:       "metadata/image-name-present",
	Severity: contract.Error,
	Source:   ours("Images"),
	Why:      "Without the placeholder imageName no container gets the image of the release.",
	Fix:      "Name the placeholder in imageName, and use it as the image of the container that runs the provider.",
	Check: func(b *contract.Bundle) []contract.Finding {
		if b.Metadata.ImageName != "" || len(b.Origin.ConfigMaps) > 0 { // only OpenShift has the images of a release
			return nil
		}
		for _, o := range b.Objects {
			for range contract.Containers(o) {
				return metadataFinding("imageName", "imageName is empty, but %s runs containers", o)
			}
		}
		return nil
	},
}, {
	ID:       "metadata/image-name-reference",
	Severity: contract.Error,
	Source:   ours("Images"),
	Why:      "The placeholder is used as an image, so it must be an image reference that includes the registry.",
	Fix:      "Write a name such as registry.ci.openshift.org/openshift:aws-cluster-api-controllers.",
	Check:    checkImageName,
}, {
	ID:       "metadata/image-name-manager",
	Severity: contract.Warning,
	Source:   ours("Images"),
	Why:      "The image of the release belongs to the container manager. If manager runs another image, imageName is probably wrong.",
	Fix:      "Use imageName as the image of the container manager.",
	Check:    checkManagerImage,
}})

func checkImageNameOccurs(b *contract.Bundle) []contract.Finding {
	runs := false
	for _, o := range b.Objects {
		for container := range contract.Containers(o) {
			if container.At("image").Text() == b.Metadata.ImageName {
				return nil
			}
			runs = true
		}
	}
	if !runs || b.Metadata.ImageName == "" {
		return nil
	}
	return metadataFinding("imageName", "no container has the image %s", b.Metadata.ImageName)
}

func checkLeftovers(b *contract.Bundle) (findings []contract.Finding) {
	placeholder := b.Metadata.ImageName
	if placeholder == "" {
		return nil
	}
	leftover := func(v contract.Value) {
		findings = append(findings, v.Finding("the placeholder %s is not replaced here", placeholder))
	}
	for _, o := range b.Objects {
		inContainers := map[*yaml.Node]bool{}
		for container := range contract.Containers(o) {
			for value := range container.All() {
				inContainers[value.Node] = true
				replaced := value.Text() == placeholder && isReplaced(container, value)
				if object.MentionsImage(value.Text(), placeholder) && !replaced {
					leftover(value)
				}
			}
		}
		for value := range o.All() {
			if value.Text() == placeholder && !inContainers[value.Node] {
				leftover(value)
			}
		}
	}
	return findings
}

// isReplaced reports whether a value of a container is one of those that the installer replaces.
func isReplaced(container, value contract.Value) bool {
	path := strings.TrimPrefix(value.Path, container.Path+".")
	return path == "image" || strings.HasPrefix(path, "args[") || strings.HasPrefix(path, "env[") && strings.HasSuffix(path, "].value")
}

// namePattern is a DNS label.
var namePattern = regexp.MustCompile(`^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$`)

// checkTypeMatches ignores types with contracts: they have their own rules.
func checkTypeMatches(b *contract.Bundle) []contract.Finding {
	switch b.Metadata.ProviderType {
	case extractor.Core:
		if len(b.Definitions) > 0 && b.Definitions.Kind("cluster.x-k8s.io", "Cluster") == nil {
			return metadataFinding("providerType", "a core provider must define the kind Cluster")
		}
	case extractor.RuntimeExtension, extractor.Addon:
		if kinds := b.Definitions.WithRole(); len(kinds) > 0 {
			return metadataFinding("providerType", "the bundle has the %s %s, but its type is %s", kinds[0].Role, kinds[0].DefinedKind, b.Metadata.ProviderType)
		}
	default: // the rules of their contracts
	}
	return nil
}

func checkImageName(b *contract.Bundle) []contract.Finding {
	written := b.Metadata.ImageName
	if written == "" {
		return nil // reported by another rule
	}
	_, err := name.ParseReference(written)
	switch {
	case err != nil:
		return metadataFinding("imageName", "invalid image reference %q", written)
	case !contract.NamesRegistry(written):
		return metadataFinding("imageName", "image reference %q has no registry", written)
	}
	return nil
}

func checkManagerImage(b *contract.Bundle) (findings []contract.Finding) {
	if b.Metadata.ImageName == "" || len(checkImageNameOccurs(b)) > 0 {
		return nil // reported by another rule
	}
	for _, o := range b.OfKind(object.Deployment) {
		for container := range contract.Containers(o) {
			image := container.At("image")
			if container.At("name").Text() == "manager" && image.Text() != b.Metadata.ImageName {
				findings = append(findings, image.Finding("the container manager runs %s", image.Text()))
			}
		}
	}
	return findings
}
