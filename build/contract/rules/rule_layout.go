// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/capi-installer/capi-installer/build/contract"
)

// layoutRules are the rules of the theme "layout".
var layoutRules = []contract.Rule{readable}

// readable is the rule of all problems that the extractor finds.
var readable = contract.Rule{
	ID:       "layout/readable",
	Checker:  contract.CheckerExtractor,
	Only:     contract.FormBundle,
	Severity: contract.Error,
	Source:   ours("Files"),
	Why:      "The installer rejects an image with invalid layers, without the files of a bundle, or with metadata that is invalid or does not belong to the manifests, and does not install the release.",
	Fix:      "Correct what the message names; \"capi-manifests generate\" writes valid files, and \"capi-manifests pack\" valid layers.",
}
