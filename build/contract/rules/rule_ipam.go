// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/capi-installer/capi-installer/build/contract"
)

// ipamRules are the rules of the theme "ipam".
var ipamRules = []contract.Rule{{
	ID:       "ipam/pool-present",
	Severity: contract.Error,
	Source:   forIPAM("IPAM provider contract: pools"),
	Why:      "An IPAddressClaim refers to a pool. An IPAM provider without a pool kind cannot allocate addresses.",
	Fix:      "Add the CRD of a pool, such as ExampleIPPool in ipam.cluster.x-k8s.io; correct providerType if this is not an IPAM provider.",
	Check:    needs(ipamType, contract.IPAMPool),
}, {
	ID:       "ipam/rbac",
	Severity: contract.Warning,
	Source:   forIPAM("Behavior"),
	Why:      "The provider watches IPAddressClaims and answers each with an IPAddress. It needs the permissions.",
	Fix:      "Grant get, list and watch of ipaddressclaims, patch or update of ipaddressclaims/status, and get, list, watch, create and delete of ipaddresses in ipam.cluster.x-k8s.io.",
	Check: func(b *contract.Bundle) []contract.Finding {
		if b.Metadata.ProviderType != ipamType {
			return nil
		}
		return b.Grants.Lacking(b, "ipam.cluster.x-k8s.io",
			contract.Need("ipaddressclaims", "get", "list", "watch"), contract.Need("ipaddressclaims/status", "patch|update"),
			contract.Need("ipaddresses", "get", "list", "watch", "create", "delete"))
	},
}}
