// SPDX-License-Identifier: Apache-2.0

// Package rbac writes the roles with the minimal permissions that the installer needs for
// a set of objects. Package permission computes the permissions. It is pure: objects in,
// roles out.
package rbac
