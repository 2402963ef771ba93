// SPDX-License-Identifier: Apache-2.0

package contract

// ipamRules are the rules of the theme "ipam".
var ipamRules = []Rule{{
	ID:       "ipam/pool-present",
	Severity: Error,
	Source:   forIPAM("IPAM provider contract: pools"),
	Why:      "An IPAddressClaim refers to a pool. An IPAM provider without a pool kind cannot allocate addresses.",
	Fix:      "Add the CRD of a pool, such as ExampleIPPool in ipam.cluster.x-k8s.io; correct providerType if this is not an IPAM provider.",
	Check:    needs(ipamType, ipamPool),
}, {
	ID:       "ipam/conditions",
	Severity: Info,
	Source:   forIPAM("IPAM provider contract: pools"),
	Why:      "Conditions explain to users why a pool allocates no addresses.",
	Fix:      "Add status.conditions, a list of metav1.Condition.",
	Check: eachDefinition(func(b *Bundle) []*definition { return b.definitionsWithRole(ipamPool) }, func(d *definition) []Finding {
		if d.hasAny([]string{"status.conditions"}) {
			return nil
		}
		return []Finding{d.At("spec", "versions").finding("no version has status.conditions")}
	}),
}, {
	ID:       "ipam/rbac",
	Severity: Warning,
	Source:   forIPAM("Behavior"),
	Why:      "The provider watches IPAddressClaims and answers each with an IPAddress. It needs the permissions.",
	Fix:      "Grant get, list and watch of ipaddressclaims, patch or update of ipaddressclaims/status, and get, list, watch, create and delete of ipaddresses in ipam.cluster.x-k8s.io.",
	Check: func(b *Bundle) []Finding {
		if b.Metadata.ProviderType != ipamType {
			return nil
		}
		return b.grants.lacking(b, "ipam.cluster.x-k8s.io",
			permission{"ipaddressclaims", []string{"get", "list", "watch"}},
			permission{"ipaddresses", []string{"get", "list", "watch", "create", "delete"}})
	},
}}
