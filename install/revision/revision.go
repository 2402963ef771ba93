// SPDX-License-Identifier: Apache-2.0

// Package revision converts a set of operands into its stored form (the data of
// ConfigMaps) and into the phases of its rollout. It also names and numbers
// versions. It is pure: it has no client and no context.
package revision

import "fmt"

// Error reports a defect in a version or in one of its ConfigMaps.
type Error struct {
	// Version is the name of the version; empty if unknown.
	Version string
	// ConfigMap is the name of the ConfigMap; empty if the error does not concern
	// one.
	ConfigMap string
	Err       error
}

func (e *Error) Error() string {
	text := e.Err.Error()
	if e.ConfigMap != "" {
		text = fmt.Sprintf("ConfigMap %s: %s", e.ConfigMap, text)
	}
	if e.Version != "" {
		text = fmt.Sprintf("version %s: %s", e.Version, text)
	}
	return text
}

func (e *Error) Unwrap() error { return e.Err }
