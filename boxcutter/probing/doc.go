// SPDX-License-Identifier: Apache-2.0

// Package probing checks whether an object is in the state that a program
// waits for: True, False, or Unknown while that cannot be told.
//
// Probes look at objects as the API has them. Typed objects are converted to
// that form first; their kind is what they say themselves.
package probing
