// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
)

// knownGroups are the groups that Cluster API's own role includes.
var knownGroups = []string{"infrastructure.cluster.x-k8s.io", "bootstrap.cluster.x-k8s.io", "controlplane.cluster.x-k8s.io"}

func lowerPlural(d *contract.Definition) string {
	return strings.ToLower(d.At("spec", "names", "plural").Text())
}
