// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"errors"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/extractor"
)

// Unreadable returns the violations of a bundle that the extractor rejected with err: a finding for each joined error.
// File is the path from the image's root, such as "capi-manifests/metadata.json"; empty if the finding is not about a
// file. It returns false if one of the errors is of another kind, such as an unavailable registry.
func Unreadable(err error) (contract.Findings, bool) {
	var findings contract.Findings
	for _, one := range leaves(err) {
		invalid, is := errors.AsType[*extractor.InvalidError](one)
		if !is {
			return nil, false
		}
		finding := contract.Finding{Line: invalid.Line, Field: invalid.Key, Message: invalid.Err.Error()}
		if where, is := errors.AsType[*extractor.Error](one); is {
			finding.File = where.File
			finding.Message = (&extractor.Error{Layer: where.Layer, Err: invalid.Err}).Error()
		}
		findings = append(findings, readable.Complete(contract.Findings{finding})...)
	}
	return findings, len(findings) > 0
}

// leaves returns the errors that are joined in err, at any depth; err itself if no errors are joined.
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
