// SPDX-License-Identifier: Apache-2.0

// Package ownerhandling writes and reads who owns an object. There are two
// ways: the owner references of Kubernetes itself, which the garbage collector
// follows, and a list in an annotation, which it does not see and which may
// name owners in other namespaces.
//
// An owner is known by group, kind, name and UID. Of the owners of an object
// at most one is its controller.
package ownerhandling

import "pkg.package-operator.run/boxcutter/machinery/types"

var (
	_ types.OwnerStrategy = (*OwnerStrategyAnnotation)(nil)
	_ types.OwnerStrategy = (*OwnerStrategyNative)(nil)
)
