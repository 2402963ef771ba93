// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"
)

// knownGroups are those that Cluster API's role has.
var knownGroups = []string{"infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"}

func lowerPlural(d *definition) string {
	return strings.ToLower(d.At("spec", "names", "plural").Text())
}
