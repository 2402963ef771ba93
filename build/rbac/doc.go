// SPDX-License-Identifier: Apache-2.0

// Package rbac computes the minimal permissions that the installer needs to install
// a set of objects, to revert drift, and to tear them down. It is pure: objects in,
// roles out.
//
// Each permission follows from an operation of the installer:
//
//   - It watches the kind of each object: cluster-wide, or in the namespace of the
//     providers, which is usually that of the object. A watch cannot be narrowed to names.
//   - It creates each object. The authorizer has no name for a create request, so
//     "create" cannot be narrowed either.
//   - It reads an object from the API server if the cache is stale, patches it, and
//     deletes it. These are narrowed to the name of the object.
//   - Before it deletes a CRD, it lists the instances.
//   - Kubernetes rejects a role or binding with permissions that the writer lacks. See grant.go.
//
// Owners are in an annotation and not in owner references, so no permission for
// finalizers is needed; nor for status subresources.
package rbac
