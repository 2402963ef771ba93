// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"fmt"

	"github.com/capi-installer/capi-installer/build/contract"
)

// Error reports findings of severity error.
type Error struct {
	Source string
	Counts map[contract.Severity]int
}

func (e *Error) Error() string {
	return fmt.Sprintf("%s: %s; see \"capi-manifests explain RULE\"", e.Source, Summary(e.Counts, 0))
}
