// SPDX-License-Identifier: Apache-2.0

// Package cli holds the rules that all commands of capi-manifests share: arguments, flags, completion, output formats, and
// errors with their exit codes.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/diffreport"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/planreport"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/precheck"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/verdict"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/install/reason"
	"github.com/capi-installer/capi-installer/internal/lazyimage"
)

// The exit codes. Errors of unknown origin, such as an unreachable registry, are ExitIO.
const (
	ExitGood     = 0
	ExitFindings = 1
	ExitUsage    = 2
	ExitIO       = 3
	ExitInvalid  = 4
)

// exitSignal is added to the number of the signal that stopped the program, as shells do: Ctrl-C has the exit code 130.
const exitSignal = 128

// SignalError reports that a signal stopped the program.
type SignalError struct{ Signal os.Signal }

func (e *SignalError) Error() string { return "stopped: " + e.Signal.String() + " signal received" }

// UsageError reports an invalid command line.
type UsageError struct{ err error }

func (e *UsageError) Error() string { return e.err.Error() }

func (e *UsageError) Unwrap() error { return e.err }

// WrongUsage joins errors into one UsageError; nil if there are none.
func WrongUsage(errs ...error) error {
	for i, err := range errs {
		if usage, is := errors.AsType[*UsageError](err); is {
			errs[i] = usage.err
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &UsageError{err}
	}
	return nil
}

// ExitCode returns the exit code of an error. For joined errors it is the code of
// the first kind that occurs: an invalid command line, an invalid input, a
// retryable error, findings.
func ExitCode(err error) int {
	if state, is := errors.AsType[*rollout.StateError](err); is {
		return exitCodes[state.State]
	}
	if stopped, is := errors.AsType[*SignalError](err); is {
		if number, is := stopped.Signal.(syscall.Signal); is {
			return exitSignal + int(number)
		}
	}
	switch {
	case isA[*statusUsageError](err), isPermanent(err):
		return ExitInvalid
	case WantsHelp(err), isA[*transform.OptionsError](err):
		return ExitUsage
	case isA[*source.InvalidError](err), isA[*lazyimage.InvalidError](err), errors.Is(err, extractor.ErrInvalid), isA[*operand.RenderError](err), isA[*operand.SettingError](err),
		isA[*imagesjson.SyntaxError](err), isA[*imagesjson.EntryError](err):
		return ExitInvalid
	case isA[*operand.ImageError](err), isA[*extractor.Error](err):
		return ExitIO
	case isA[*operand.MissingError](err), isA[*operand.DuplicateError](err), isA[*findings.Error](err), isA[*diffreport.DifferencesError](err), isA[*verdict.RejectedError](err), isA[*planreport.BlockedError](err), isA[*precheck.FailedError](err):
		return ExitFindings
	}
	return ExitIO
}

// WantsHelp reports whether the help of the command helps to correct an error. It does not help to find a missing file.
func WantsHelp(err error) bool {
	return !errors.Is(err, fs.ErrNotExist) && (isA[*UsageError](err) || isA[*source.ArgumentError](err) || isA[*findings.ConfigError](err))
}

// isPermanent reports whether retrying a failed request to a cluster is useless.
func isPermanent(err error) bool {
	failed, is := errors.AsType[*installed.AccessError](err)
	return is && failed.Permanent
}

func isA[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// Report writes an error, with one line for each joined error, and the next step.
func Report(w io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "capi-manifests: %s\n", term.PrintableLines(strings.TrimSuffix(line, "\n")))
	}
	if isA[*operand.MissingError](err) || isA[*operand.DuplicateError](err) {
		fmt.Fprintf(w, "capi-manifests: %s\n", reason.Of(reason.ComponentMissing).NextStep())
	}
}

// statusUsageError reports an invalid command line of status. Its exit code is
// ExitInvalid, because status uses the code of usage errors for a blocked rollout.
type statusUsageError struct{ error }

func (e *statusUsageError) Unwrap() error { return e.error }

// StatusUsage marks an error as one of the command status if it reports an invalid command line.
func StatusUsage(err error) error {
	if err != nil && WantsHelp(err) {
		return &statusUsageError{err}
	}
	return err
}

// exitCodes maps states to exit codes.
var exitCodes = map[rollout.State]int{rollout.AtRest: ExitGood, rollout.RollingOut: 1, rollout.Blocked: 2, rollout.NotWorking: 2, rollout.Paused: 2}

// cleanupGrace is the time that a command has for its cleanup after the end of its
// context.
const cleanupGrace = 5 * time.Second

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
