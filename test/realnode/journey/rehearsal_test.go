// SPDX-License-Identifier: Apache-2.0

//go:build linux && realnode

package journey

import "testing"

// TestRehearsal proves on the node that a release whose pods cannot start is stopped before its first CRD is written.
func TestRehearsal(t *testing.T) { travel(t, (*Journey).RehearsalSteps) }
