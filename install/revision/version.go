// SPDX-License-Identifier: Apache-2.0

package revision

import (
	"slices"

	"github.com/opencontainers/go-digest"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
)

// Same reports whether a version has this content ID and these unmanaged CRDs, in any
// order.
func Same(version v1alpha1.Version, contentID digest.Digest, unmanaged []string) bool {
	return string(version.ContentID) == contentID.String() && SameUnmanaged(version, unmanaged)
}

// SameUnmanaged reports whether a version has these unmanaged CRDs, in any order.
func SameUnmanaged(version v1alpha1.Version, unmanaged []string) bool {
	return slices.Equal(sorted(version.UnmanagedCRDs), sorted(unmanaged))
}

func sorted(names []string) []string {
	return slices.Compact(slices.Sorted(slices.Values(names)))
}
