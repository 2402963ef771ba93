// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"errors"

	"github.com/capi-installer/capi-installer/extractor"
)

// brokenBy are the rules of problems; layout/readable is that of all others.
var brokenBy = map[extractor.Defect]string{
	extractor.FilesWrong:         "layout/files-present",
	extractor.FileTooLong:        "layout/file-size-limit",
	extractor.MetadataUnreadable: "metadata/parseable",
	extractor.KeyUnknown:         "metadata/unknown-field",
	extractor.KeyMissing:         "metadata/required-field",
	extractor.ValueWrong:         "metadata/field-valid",
	extractor.ManifestsChanged:   "metadata/content-id-matches",
}

// Unreadable returns the violations of a bundle that the extractor rejected with err: a
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
		findings = append(findings, ruleOf(invalid.Defect).complete([]Finding{finding})...)
	}
	return findings, len(findings) > 0
}

// ruleOf is the rule that a defect breaks.
func ruleOf(defect extractor.Defect) Rule {
	id := cmp.Or(brokenBy[defect], "layout/readable")
	for _, rule := range Rules() {
		if rule.ID == id {
			return rule
		}
	}
	return Rule{} // not reached: every defect has a rule, which a test proves
}

// leaves are the errors that are joined in err, at whatever depth, and err itself if there are none.
func leaves(err error) []error {
	for at := err; at != nil; at = errors.Unwrap(at) {
		switch at := at.(type) { //nolint:errorlint // it walks down itself
		case *extractor.InvalidError:
			return []error{err} // the errors that it joins describe one defect
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
