// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"regexp"
	"strings"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/capi-installer/capi-installer/extractor"
)

// LabelPrefixes are the prefixes of the provider label, by type.
var LabelPrefixes = map[extractor.ProviderType]string{
	extractor.Infrastructure: "infrastructure-", extractor.ControlPlane: "control-plane-", extractor.Bootstrap: "bootstrap-",
	extractor.IPAM: "ipam-", extractor.RuntimeExtension: "runtime-extension-", extractor.Addon: "addon-",
}

// Platforms are the OpenShift platform types, as the Infrastructure object of a cluster names them.
var Platforms = []configv1.PlatformType{
	configv1.AWSPlatformType, configv1.AzurePlatformType, configv1.BareMetalPlatformType, configv1.GCPPlatformType,
	configv1.LibvirtPlatformType, configv1.OpenStackPlatformType, configv1.NonePlatformType, configv1.VSpherePlatformType,
	configv1.OvirtPlatformType, configv1.IBMCloudPlatformType, configv1.KubevirtPlatformType, configv1.EquinixMetalPlatformType,
	configv1.PowerVSPlatformType, configv1.AlibabaCloudPlatformType, configv1.NutanixPlatformType, configv1.ExternalPlatformType,
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
