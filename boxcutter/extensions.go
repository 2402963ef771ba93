// SPDX-License-Identifier: Apache-2.0

package boxcutter

import "pkg.package-operator.run/boxcutter/machinery/types"

// The names in this file are additions: the original module does not have them.

// WithConcurrency has several objects of a phase written at the same time.
var WithConcurrency = types.WithConcurrency

// WithoutDryRunOfUnchanged has the API server asked only about objects that are going to be written.
var WithoutDryRunOfUnchanged = types.WithoutDryRunOfUnchanged

// WithKeepUsedCRDs leaves definitions of which there are objects in place at teardown.
var WithKeepUsedCRDs = types.WithKeepUsedCRDs
