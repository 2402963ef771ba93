// SPDX-License-Identifier: Apache-2.0

// Package probing tells from an object whether it is in the state somebody
// waits for: True, False, or Unknown while that cannot be told.
//
// Probes look at objects as the API has them. Typed objects are converted to
// that form first; their kind is what they say themselves.
package probing
