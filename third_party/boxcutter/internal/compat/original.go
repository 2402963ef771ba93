// SPDX-License-Identifier: Apache-2.0

//go:build boxcutter_compat

package compat

// Original reports whether the module has the limits of the original.
const Original = true
