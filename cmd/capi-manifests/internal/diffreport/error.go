// SPDX-License-Identifier: Apache-2.0

package diffreport

import "github.com/capi-installer/capi-installer/build/diff"

// DifferencesError reports differences that decide the exit code.
type DifferencesError struct{ Verdict diff.Verdict }

func (e *DifferencesError) Error() string {
	return "found differences: " + Counts(e.Verdict)
}
