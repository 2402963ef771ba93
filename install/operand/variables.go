// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/internal/variable"
)

// usedVariables returns the values of the variables that the manifests of the
// bundles use; nil if there are none. Other variables do not belong to a set: a
// change of the cluster's proxy, for example, creates no new revision unless a
// provider uses it.
func usedVariables(bundles []extractor.Bundle, values map[string]string) map[string]string {
	var used map[string]string
	for _, bundle := range bundles {
		for name := range variable.Names(bundle.Manifests) {
			value, known := values[name]
			if !known {
				continue
			}
			if used == nil {
				used = map[string]string{}
			}
			used[name] = value
		}
	}
	return used
}
