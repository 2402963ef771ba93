// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"

	"github.com/capi-installer/capi-installer/extractor"
)

// labelPrefixes are the prefixes of the provider label, by type.
var labelPrefixes = map[extractor.ProviderType]string{
	extractor.Infrastructure: "infrastructure-", extractor.ControlPlane: "control-plane-", extractor.Bootstrap: "bootstrap-",
	extractor.IPAM: "ipam-", extractor.RuntimeExtension: "runtime-extension-", extractor.Addon: "addon-",
}

// ProviderLabel returns the value of capicontract.ProviderLabel that clusterctl would give the objects of a
// provider.
func ProviderLabel(m extractor.Metadata) string {
	if m.ProviderType == extractor.Core {
		return "cluster-api"
	}
	name, prefix := m.ProviderName, labelPrefixes[m.ProviderType]
	for _, usual := range []string{"cluster-api-provider-", "cluster-api-", prefix, withoutDash(prefix)} {
		name = strings.TrimPrefix(name, usual)
	}
	return prefix + name
}
