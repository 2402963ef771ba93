// SPDX-License-Identifier: Apache-2.0

// Package bundle reads the objects of a bundle, summarizes its contents, and writes
// bundles to directories without ever leaving a partial bundle.
package bundle
