// SPDX-License-Identifier: Apache-2.0

// Package report holds the outputs of commands that need no package of their own: the contents of bundles (inspect), trees
// of objects (tree), minimal roles (rbac) and the results of generate. Each command has one file.
package report
