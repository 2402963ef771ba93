// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"fmt"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/install/engine"
	"github.com/capi-installer/capi-installer/install/preflight"
)

// withDeletions adds to a rejection the commands that delete the objects rejected only because of immutable fields.
func withDeletions(rejection *engine.Rejection) error {
	var commands []string
	for _, rejected := range rejection.Objects {
		if len(rejected.Errors) > 0 && !slices.ContainsFunc(rejected.Errors, func(err error) bool { return !preflight.IsImmutable(rejected.GroupKind, err) }) {
			commands = append(commands, preflight.Deletion(rejected.Identity))
		}
	}
	if commands == nil {
		return rejection
	}
	return fmt.Errorf("%w; a field of %d object(s) is immutable: delete them, and the installer creates them again: %s", rejection, len(commands), strings.Join(commands, "; "))
}
