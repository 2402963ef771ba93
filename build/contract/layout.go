// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"errors"

	"github.com/capi-installer/capi-installer/extractor"
)

// layoutRules are broken by bundles that the extractor refuses. They are checked by reading one: see Unreadable.
var layoutRules = []Rule{{
	ID:       "layout/readable",
	By:       ByReading,
	Only:     FormBundle,
	Severity: Error,
	Source:   ours("Files"),
	Why:      "An image whose layers cannot be unpacked, or are meant to do harm, holds no bundle for the installer. It keeps the whole release from being installed.",
	Fix:      "Build the image anew, with its files as plain files; \"capi-manifests pack\" does it.",
}, {
	ID:       "layout/files-present",
	By:       ByReading,
	Only:     FormBundle,
	Severity: Error,
	Source:   ours("Files"),
	Why:      "A bundle is its metadata and its manifests. The installer takes one without the other for a mistake, and installs nothing of the release, rather than to leave a provider out.",
	Fix:      "Put metadata.json and manifests.yaml into capi-manifests, each once and not empty; \"capi-manifests generate\" does it.",
}, {
	ID:       "layout/file-size-limit",
	By:       ByReading,
	Only:     FormBundle,
	Severity: Error,
	Source:   ours("Files"),
	Why:      "The installer holds bundles in memory, and refuses what is far longer than any provider's.",
	Fix:      "Keep the metadata below 64 KiB and the manifests below 32 MiB.",
}, {
	ID:       "metadata/parseable",
	By:       ByReading,
	Only:     FormBundle,
	Severity: Error,
	Source:   ours("Files"),
	Why:      "Of metadata that can be read in two ways, such as with a key that is there twice, every reader takes another.",
	Fix:      "Write one object, each key once, with texts as values.",
}, {
	ID:       "metadata/unknown-field",
	By:       ByReading,
	Only:     FormBundle,
	Severity: Error,
	Source:   ours("Files"),
	Why:      "A key that nobody knows is mostly one that is misspelt: what it says would be lost without a word.",
	Fix:      "Use the keys that the message names, letter by letter.",
}, {
	ID:       "metadata/required-field",
	By:       ByReading,
	Only:     FormBundle,
	Severity: Error,
	Source:   ours("Files"),
	Why:      "Without name, type, version and content ID nobody can tell what would be installed, in which order, or whether it is what was built.",
	Fix:      "Add the key; \"capi-manifests generate\" writes all of them.",
}, {
	ID:       "metadata/field-valid",
	By:       ByReading,
	Only:     FormBundle,
	Severity: Error,
	Source:   ours("Files"),
	Why:      "Names become those of objects and types decide the order. The installer can do nothing with others.",
	Fix:      "Correct the value as the message says.",
}, {
	ID:       "metadata/content-id-matches",
	By:       ByReading,
	Only:     FormBundle,
	Severity: Error,
	Source:   ours("Files"),
	Why:      "contentID is the digest of the manifests, byte for byte. If it is another's, one of the files is not the one that was built, and nobody can tell which.",
	Fix:      "Change manifests by generating them anew, not by hand; keep git and editors from changing the ends of lines.",
}}

// brokenBy are the rules of problems; layout/readable is that of all others.
var brokenBy = map[extractor.Problem]string{
	extractor.FilesWrong:         "layout/files-present",
	extractor.FileTooLong:        "layout/file-size-limit",
	extractor.MetadataUnreadable: "metadata/parseable",
	extractor.KeyUnknown:         "metadata/unknown-field",
	extractor.KeyMissing:         "metadata/required-field",
	extractor.ValueWrong:         "metadata/field-valid",
	extractor.ManifestsChanged:   "metadata/content-id-matches",
}

// Unreadable returns what is wrong with a bundle that the extractor refused with err: a
// finding for each error that is joined in it. File is the path from the image's root, such as
// "capi-manifests/metadata.json", empty if it is not about one. It is false if any of the
// errors is of another kind, such as a registry that does not answer.
func Unreadable(err error) ([]Finding, bool) {
	var findings []Finding
	for _, one := range leaves(err) {
		invalid, is := errors.AsType[*extractor.InvalidError](one)
		if !is {
			return nil, false
		}
		finding := Finding{Line: invalid.Line, Field: invalid.Key, Message: invalid.Err.Error()}
		if where, is := errors.AsType[*extractor.Error](one); is {
			finding.File = where.File
			finding.Message = (&extractor.Error{Layer: where.Layer, Err: invalid.Err}).Error()
		}
		findings = append(findings, ruleOf(invalid.Problem).complete([]Finding{finding})...)
	}
	return findings, len(findings) > 0
}

// ruleOf is the rule that a problem breaks.
func ruleOf(problem extractor.Problem) Rule {
	id := cmp.Or(brokenBy[problem], "layout/readable")
	for _, rule := range layoutRules {
		if rule.ID == id {
			return rule
		}
	}
	return Rule{} // not reached: every problem has a rule, which a test proves
}

// leaves are the errors that are joined in err, at whatever depth, and err itself if there are none.
func leaves(err error) []error {
	for at := err; at != nil; at = errors.Unwrap(at) {
		switch at := at.(type) { //nolint:errorlint // it walks down itself
		case *extractor.InvalidError:
			return []error{err} // what it joins is one thing that is wrong
		case interface{ Unwrap() []error }:
			var all []error
			for _, one := range at.Unwrap() {
				all = append(all, leaves(one)...)
			}
			return all
		}
	}
	return []error{err}
}
