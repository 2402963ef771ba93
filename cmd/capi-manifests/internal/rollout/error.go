// SPDX-License-Identifier: Apache-2.0

package rollout

import "errors"

// The reasons for which a user ends a display on a terminal: the key q, and Ctrl-C.
var (
	ErrQuit        = errors.New("ended by the user")
	ErrInterrupted = errors.New("interrupted")
)

// StateError reports a rollout that is not at rest, for the exit code.
type StateError struct {
	State State
	// Message is empty if the report explains the state.
	Message string
}

func (e *StateError) Error() string { return e.Message }
