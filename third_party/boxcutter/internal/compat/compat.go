// SPDX-License-Identifier: Apache-2.0

//go:build !boxcutter_compat

// Package compat selects the compatibility mode: the module has the limits of the
// original and no additional options. It is for tests of programs that must also
// run with the original; build them with the tag boxcutter_compat.
package compat

// Original reports whether the module has the limits of the original.
const Original = false
