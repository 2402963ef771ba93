// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"embed"
	"fmt"
)

//go:embed examples
var examples embed.FS

// Example is a bundle that keeps a rule, and one that breaks it: their manifests.
// In Bad a comment that begins with "<-" stands where the rule finds something. A
// comment such as "# ocpPlatform: AWS" is what the metadata say.
type Example struct{ Good, Bad string }

// Example returns the examples of the rule.
func (r Rule) Example() (Example, error) {
	good, err := examples.ReadFile("examples/" + r.ID + "/good.yaml")
	if err != nil {
		return Example{}, fmt.Errorf("reading the good example of %s: %w", r.ID, err)
	}
	bad, err := examples.ReadFile("examples/" + r.ID + "/bad.yaml")
	if err != nil {
		return Example{}, fmt.Errorf("reading the bad example of %s: %w", r.ID, err)
	}
	return Example{string(good), string(bad)}, nil
}
