// SPDX-License-Identifier: Apache-2.0

// Package probing checks whether an object is in a desired state. The result is
// True, False, or Unknown if the state cannot be determined.
//
// Probes work on unstructured content; typed objects are converted first. The
// kind of an object is the one in its TypeMeta.
package probing
