// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"errors"
	"fmt"
	"io/fs"
)

// Example has the manifests of a provider without, and of one with, findings of a rule. In Bad, a comment that begins
// with "<-" marks each line with a finding. A comment such as "# ocpPlatform: AWS" sets a field of the metadata.
// Examples of rules about image layouts and about releases have several files, each after a line with its path ("--
// capi-manifests/metadata.json --").
type Example struct{ Good, Bad string }

// Example returns the examples of the rule.
func (r Rule) Example() (Example, error) {
	good, err := r.example("good")
	if err != nil {
		return Example{}, err
	}
	bad, err := r.example("bad")
	return Example{good, bad}, err
}

// WithExamples returns the rule with the examples in a file system, in the folder examples.
func (r Rule) WithExamples(files fs.ReadFileFS) Rule {
	r.examples = files
	return r
}

// example returns the text of a file of the rule's examples.
func (r Rule) example(name string) (string, error) {
	text, err := r.examples.ReadFile("examples/" + r.ID + "/" + name + ".yaml")
	if errors.Is(err, fs.ErrNotExist) {
		text, err = r.examples.ReadFile("examples/" + r.ID + "/" + name + ".txtar")
	}
	if err != nil {
		return "", fmt.Errorf("reading the %s example of %s: %w", name, r.ID, err)
	}
	return string(text), nil
}
