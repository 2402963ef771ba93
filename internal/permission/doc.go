// SPDX-License-Identifier: Apache-2.0

// Package permission computes the minimal permissions that the installer needs to install
// a set of objects, to revert drift, and to tear them down. It is pure: objects in,
// roles out.
//
// Each permission follows from an operation of the installer:
//
//   - It watches the kind of each object: cluster-wide, or in the namespaces of the providers. A watch cannot be limited to names.
//   - It creates each object. The authorizer does not know the name in a create request,
//     so "create" cannot be limited to names either.
//   - It reads an object from the API server if the cache is stale, patches it, and
//     deletes it. These permissions are limited to the name of the object.
//   - Before it deletes a CRD, it lists the instances.
//   - Kubernetes rejects a role or binding with permissions that the writer lacks. See grant.go.
//
// Owners are in an annotation, not in owner references, so no permission for
// finalizers or status subresources is needed.
package permission
