// SPDX-License-Identifier: Apache-2.0

// Package ownerhandling reads and writes the owners of an object. There are two
// strategies: Kubernetes owner references and a list in an annotation. The
// garbage collector follows only the former; only the latter may have owners in
// other namespaces.
//
// An owner is identified by group, kind, name and UID. At most one owner of an
// object is its controller.
package ownerhandling

import "pkg.package-operator.run/boxcutter/machinery/types"

var (
	_ types.OwnerStrategy = (*OwnerStrategyAnnotation)(nil)
	_ types.OwnerStrategy = (*OwnerStrategyNative)(nil)
)
