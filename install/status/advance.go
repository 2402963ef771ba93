// SPDX-License-Identifier: Apache-2.0

package status

import "github.com/capi-installer/capi-installer/api/v1alpha1"

// Advanced reports whether fewer objects of a version are left to become ready, or to be
// removed, than its status says.
func Advanced(before []v1alpha1.Version, after map[string][]v1alpha1.Phase) bool {
	for _, version := range before {
		if phases := after[version.Name]; phases != nil && version.Phases != nil && left(phases) < left(version.Phases) {
			return true
		}
	}
	return false
}

// left counts the objects of phases that are not ready, or not removed.
func left(phases []v1alpha1.Phase) (objects int32) {
	for _, phase := range phases {
		objects += phase.Objects - phase.Ready
	}
	return objects
}
