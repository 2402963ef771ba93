// SPDX-License-Identifier: Apache-2.0

// Package bundle reads the objects of a bundle, summarizes its contents, and
// writes files so that a directory never holds half of a bundle.
package bundle
