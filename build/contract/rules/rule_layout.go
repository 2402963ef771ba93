// SPDX-License-Identifier: Apache-2.0

package rules

import (
	"github.com/capi-installer/capi-installer/build/contract"
)

// layoutRules are the rules of the theme "layout".
var layoutRules = []contract.Rule{{
	ID:       "layout/readable",
	Checker:  contract.CheckerExtractor,
	Only:     contract.FormBundle,
	Severity: contract.Error,
	Source:   ours("Files"),
	Why:      "The installer rejects an image with invalid or malicious layers, and does not install the release.",
	Fix:      "Rebuild the image with plain files; \"capi-manifests pack\" does it.",
}, {
	ID:       "layout/files-present",
	Checker:  contract.CheckerExtractor,
	Only:     contract.FormBundle,
	Severity: contract.Error,
	Source:   ours("Files"),
	Why:      "A bundle consists of metadata and manifests. If one is missing, the installer rejects the release, because it must not omit a provider.",
	Fix:      "Put metadata.json and manifests.yaml into capi-manifests, each once and not empty; \"capi-manifests generate\" does it.",
}, {
	ID:       "layout/file-size-limit",
	Checker:  contract.CheckerExtractor,
	Only:     contract.FormBundle,
	Severity: contract.Error,
	Source:   ours("Files"),
	Why:      "The installer holds bundles in memory and rejects larger files.",
	Fix:      "Keep the metadata below 64 KiB and the manifests below 32 MiB.",
}}
