// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"regexp"
	"strings"

	"github.com/capi-installer/capi-installer/extractor"
)

// LabelPrefixes are the prefixes of the provider label, by type.
var LabelPrefixes = map[extractor.ProviderType]string{
	extractor.Infrastructure: "infrastructure-", extractor.ControlPlane: "control-plane-", extractor.Bootstrap: "bootstrap-",
	extractor.IPAM: "ipam-", extractor.RuntimeExtension: "runtime-extension-", extractor.Addon: "addon-",
}

// ProviderLabel returns the value of capicontract.ProviderLabel that clusterctl would give the objects of a
// provider.
func ProviderLabel(m extractor.Metadata) string {
	if m.ProviderType == extractor.Core {
		return "cluster-api"
	}
	name, prefix := m.ProviderName, LabelPrefixes[m.ProviderType]
	for _, usual := range []string{"cluster-api-provider-", "cluster-api-", prefix, withoutDash(prefix)} {
		name = strings.TrimPrefix(name, usual)
	}
	return prefix + name
}

// IsProviderVersion reports whether a text is a semantic version with a leading v, such as v2.10.0.
func IsProviderVersion(text string) bool { return semverPattern.MatchString(text) }

// semverPattern is from https://semver.org, with a leading v.
var semverPattern = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
