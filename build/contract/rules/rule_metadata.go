// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"
	"slices"
	"strings"

	configv1 "github.com/openshift/api/config/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/object"
)

// metadataRules are the rules of the theme "metadata".
var metadataRules = only(contract.FormBundle, []contract.Rule{{
	ID:       "metadata/image-name-occurs",
	Severity: contract.Error,
	Source:   ours("Images"),
	Why:      "imageName is the placeholder for the provider's own image. Without it, or if no container uses it, the image of the release never runs.",
	Fix:      "Use imageName, a reference that includes the registry, as the image of the container that runs the provider.",
	Check:    checkImageNameOccurs,
}, {
	ID:       "metadata/image-name-only-in-images",
	Severity: contract.Error,
	Source:   ours("Images"),
	Why:      "The installer replaces the placeholder in all texts where it is a whole token: between the start, the end, =, commas, quotes and white space. It rejects a placeholder in another position, because that image cannot be pulled.",
	Fix:      "Make the placeholder a whole token, for example --helper-image=<imageName>.",
	Check:    checkLeftovers,
}, {
	ID:       "metadata/provider-version-semver",
	Severity: contract.Warning,
	Source:   clusterctl("Creating a provider repository on GitHub"),
	Why:      "Tools and people compare versions; an invalid version cannot be compared.",
	Fix:      "Write a semantic version with a leading v, such as v2.10.0.",
	Check: ofProviders(func(b *contract.Bundle) contract.Findings {
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
	Check: func(b *contract.Bundle) contract.Findings {
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
	Check: func(b *contract.Bundle) contract.Findings {
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
	Fix:      "Use at most 58 lower case letters, digits and dashes, with a letter first, such as cluster-api-provider-aws.",
	Check: func(b *contract.Bundle) contract.Findings {
		name := b.Metadata.ProviderName
		if problems := validation.IsDNS1035Label(name + "-crds"); len(problems) > 0 {
			return metadataFinding("providerName", "invalid name %q: %s", name, strings.Join(problems, "; "))
		}
		return nil
	},
}, {
	ID:       "metadata/provider-name-core",
	Severity: contract.Error,
	Source:   clusterctl("Adding a provider to clusterctl"),
	Why:      "Only the core provider has the name cluster-api. clusterctl rejects another type with this name, and core with another name.",
	Fix:      "Name the core provider cluster-api, and others cluster-api-provider-<name>.",
	Check: func(b *contract.Bundle) contract.Findings {
		isCore := b.Metadata.ProviderType == extractor.Core
		if isCore == (b.Metadata.ProviderName == "cluster-api") || b.Metadata.ProviderType == "" {
			return nil
		}
		return metadataFinding("providerName", "the provider %s is of type %s", b.Metadata.ProviderName, b.Metadata.ProviderType)
	},
}})

func checkImageNameOccurs(b *contract.Bundle) contract.Findings {
	placeholder, runs := b.Metadata.ImageName, false
	for _, o := range b.Objects {
		for container := range contract.Containers(o) {
			if container.At("image").Text() == placeholder && contract.NamesRegistry(placeholder) {
				return nil
			}
			runs = true
		}
	}
	if !runs || placeholder == "" && len(b.Origin.ConfigMaps) > 0 { // images are already replaced there
		return nil
	}
	return metadataFinding("imageName", "no container has the image %q with a registry", placeholder)
}

func checkLeftovers(b *contract.Bundle) (findings contract.Findings) {
	placeholder := b.Metadata.ImageName
	if placeholder == "" {
		return nil
	}
	for _, o := range b.Objects {
		for value := range o.All() {
			if object.MentionsImage(object.ReplaceTokens(value.Text(), placeholder, ""), placeholder) {
				findings = append(findings, value.Finding("the placeholder %s is not replaced here", placeholder)...)
			}
		}
	}
	return findings
}

// layoutRules are the rules of the theme "layout".
var layoutRules = []contract.Rule{readable}

// readable is the rule of all problems that the extractor finds.
var readable = contract.Rule{
	ID:       "layout/readable",
	Checker:  contract.CheckerExtractor,
	Only:     contract.FormBundle,
	Severity: contract.Error,
	Source:   ours("Files"),
	Why:      "The installer rejects an image with invalid layers, without the files of a bundle, or with metadata that is invalid or does not belong to the manifests, and does not install the release.",
	Fix:      "Correct what the message names; \"capi-manifests generate\" writes valid files, and \"capi-manifests pack\" valid layers.",
}

// Unreadable returns the violations of a bundle that the extractor rejected with err: a finding for each joined error.
// File is the path from the image's root, such as "capi-manifests/metadata.json"; empty if the finding is not about a
// file. It returns false if one of the errors is of another kind, such as an unavailable registry.
func Unreadable(err error) (contract.Findings, bool) {
	var findings contract.Findings
	for _, one := range leaves(err) {
		invalid, is := errors.AsType[*extractor.InvalidError](one)
		if !is {
			return nil, false
		}
		finding := contract.Finding{Line: invalid.Line, Field: invalid.Key, Message: invalid.Err.Error()}
		if where, is := errors.AsType[*extractor.Error](one); is {
			finding.File = where.File
			finding.Message = (&extractor.Error{Layer: where.Layer, Err: invalid.Err}).Error()
		}
		findings = append(findings, readable.Complete(contract.Findings{finding})...)
	}
	return findings, len(findings) > 0
}

// leaves returns the errors that are joined in err, at any depth; err itself if no errors are joined.
func leaves(err error) []error {
	for at := err; at != nil; at = errors.Unwrap(at) {
		switch at := at.(type) { //nolint:errorlint // it walks down itself
		case *extractor.InvalidError:
			return []error{err} // the errors that it joins describe one defect
		case interface{ Unwrap() []error }:
			var all []error
			for _, one := range at.Unwrap() {
				all = append(all, leaves(one)...)
			}
			return all
		}
	}
	return []error{err}
}
