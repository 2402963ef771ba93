// SPDX-License-Identifier: Apache-2.0

package installer

import (
	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/install/engine"
)

// scope is the part of a version that a reconcile covers.
type scope int

const (
	// rollout applies the phases in order, each when the previous one is ready.
	rollout scope = iota
	// maintenance applies all phases. They were complete before, and an object that
	// becomes unready must not block later phases.
	maintenance
	// controlledOnly applies the objects that the version still controls, and no others.
	controlledOnly
)

// scopeOf returns the scope for a version. The current version is maintained. A
// version that was superseded before it was complete is not rolled out further,
// but the objects that it controls are reconciled until a newer version adopts them.
func scopeOf(name string, status v1alpha1.ClusterAPIStatus) scope {
	switch name {
	case status.CurrentVersion:
		return maintenance
	case status.DesiredVersion:
		return rollout
	default:
		return controlledOnly
	}
}

// reverts reports whether an action reverts a change of another actor. Only the current version was complete before; others also
// create and update objects, but need not take a field back.
func (s scope) reverts(action engine.Action) bool {
	if s == maintenance {
		return externalChange(action) != ""
	}
	return action == engine.Recovered
}

// externalChange describes the change that an action reverts; empty if there is none.
func externalChange(action engine.Action) string {
	switch action {
	case engine.Created:
		return "deleted"
	case engine.Updated, engine.Recovered:
		return "modified"
	default:
		return ""
	}
}
