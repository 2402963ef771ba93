// SPDX-License-Identifier: Apache-2.0

package boxcutter

import "pkg.package-operator.run/boxcutter/machinery/types"

// The names in this file are additions: the original module does not have them.

// WithConcurrency has several objects of a phase written at the same time.
var WithConcurrency = types.WithConcurrency

// WithDryRunOfUnchanged has the API server asked about every object at every step.
var WithDryRunOfUnchanged = types.WithDryRunOfUnchanged

// WithKeepUsedCRDs leaves definitions of which there are objects in place at teardown.
var WithKeepUsedCRDs = types.WithKeepUsedCRDs
