// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"fmt"
	"io/fs"
	"strings"

	"github.com/rogpeppe/go-internal/txtar"
)

// Example has the manifests of a provider without, and of one with, findings of a rule. In Bad, a comment that begins
// with "<-" marks each line with a finding. A comment such as "# ocpPlatform: AWS" sets a field of the metadata.
// Examples of rules about image layouts and about releases have several files, each after a line with its path ("--
// capi-manifests/metadata.json --").
type Example struct{ Good, Bad string }

// Example returns the examples of the rule, from the archive examples/<rule id>.txtar. An example is a file, good.yaml, or
// a folder, good/, whose comment is the file good.
func (r Rule) Example() (Example, error) {
	name := "examples/" + r.ID + ".txtar"
	text, err := r.examples.ReadFile(name)
	if err != nil {
		return Example{}, fmt.Errorf("reading the examples of %s: %w", r.ID, err)
	}
	archive := txtar.Parse(text)
	example := Example{exampleIn(archive, "good"), exampleIn(archive, "bad")}
	if example.Good == "" || example.Bad == "" {
		return Example{}, fmt.Errorf("reading the examples of %s: %s has no good or no bad example", r.ID, name)
	}
	return example, nil
}

// WithExamples returns the rule with the examples in a file system, in the folder examples.
func (r Rule) WithExamples(files fs.ReadFileFS) Rule {
	r.examples = files
	return r
}

// exampleIn returns the text of an example in an archive: of its only file, or of all its files as an archive.
func exampleIn(archive *txtar.Archive, name string) string {
	var files txtar.Archive
	for _, file := range archive.Files {
		if file.Name == name+".yaml" {
			return string(file.Data)
		}
		if file.Name == name {
			files.Comment = file.Data
		}
		if path, found := strings.CutPrefix(file.Name, name+"/"); found {
			files.Files = append(files.Files, txtar.File{Name: path, Data: file.Data})
		}
	}
	return string(txtar.Format(&files))
}
