// SPDX-License-Identifier: Apache-2.0

// Package revision turns a set of operands into what is kept of it and what is
// done with it: the stored form, which lies in ConfigMaps, and the phases in
// which its objects are applied. It also names and numbers versions. It is pure:
// values in, values out.
package revision

import "fmt"

// Error says what is wrong with a version or with a ConfigMap that holds it.
type Error struct {
	// Version is the name of the version; empty where it is not known.
	Version string
	// ConfigMap is the name of the ConfigMap; empty where none is to blame.
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
