// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"
)

// cleanupGrace is the time that a command has for its cleanup after the end of its
// context.
const cleanupGrace = 15 * time.Second

// ExecuteUntil executes a command. If the command still runs some time after the
// end of ctx, because it is blocked in a call without a context, ExecuteUntil
// returns the cause, and the command ends with the program.
func ExecuteUntil(ctx context.Context, root *cobra.Command) (cmd *cobra.Command, err error) {
	ended := make(chan struct{})
	var executed *cobra.Command
	var failed error
	go func() {
		defer close(ended)
		executed, failed = root.ExecuteContextC(ctx)
	}()
	select {
	case <-ended:
		return executed, failed
	case <-ctx.Done():
	}
	select {
	case <-ended:
		return executed, failed
	case <-time.After(cleanupGrace):
		return root, context.Cause(ctx)
	}
}
