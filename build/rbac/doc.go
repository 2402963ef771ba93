// SPDX-License-Identifier: Apache-2.0

// Package rbac finds out the least that the installer must be allowed to do so
// that it can install a set of objects, keep them as they are, and remove them. It
// is pure: objects in, roles out.
//
// Each permission follows from something that the installer does:
//
//   - It watches the kind of each object: cluster-wide, or in the providers' namespace,
//     where the object is too, as a rule. A selector by label cannot be narrowed by names.
//   - It creates each object. Kubernetes knows no name when something is created, so
//     "create" cannot be narrowed either.
//   - It reads an object past its cache when that turns out to be out of date, patches
//     it, and deletes it. All of that is narrowed to the object's name.
//   - Before it deletes a CRD it asks whether there is an object of its kind.
//   - Kubernetes lets nobody write a role that grants what they lack, nor bind one. See grants.
//
// Owners are noted in an annotation and not in owner references, so no finalizers
// have to be written; and nothing is written to the status of what is installed.
package rbac
