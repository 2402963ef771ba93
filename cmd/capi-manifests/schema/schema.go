// SPDX-License-Identifier: Apache-2.0

// Package schema holds the JSON schemas of capi-manifests' output and of its
// config file.
package schema

import "embed"

// Files are the schemas: config.json, diff.json, history.json, plan.json, status.json and validation.json.
//
//go:embed *.json
var Files embed.FS

// The published addresses of the schemas.
const (
	Config     = base + "config.json"
	Diff       = base + "diff.json"
	History    = base + "history.json"
	Plan       = base + "plan.json"
	Status     = base + "status.json"
	Validation = base + "validation.json"

	base = "https://raw.githubusercontent.com/capi-installer/capi-installer/main/cmd/capi-manifests/schema/"
)
