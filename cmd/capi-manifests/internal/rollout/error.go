// SPDX-License-Identifier: Apache-2.0

package rollout

// StateError reports a rollout that is not at rest, for the exit code.
type StateError struct {
	State State
	// Message is empty if the report explains the state.
	Message string
}

func (e *StateError) Error() string { return e.Message }
