// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"strings"
)

// knownGroups are the groups that Cluster API's own role includes.
var knownGroups = []string{"infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"}

func lowerPlural(d *definition) string {
	return strings.ToLower(d.At("spec", "names", "plural").Text())
}
