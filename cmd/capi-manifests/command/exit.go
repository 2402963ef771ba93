// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/verdict"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/operand"
	"github.com/capi-installer/capi-installer/internal/ocilayout"
)

// The exit codes. Errors of unknown origin, such as an unreachable registry, are ExitIO.
const (
	ExitGood     = 0
	ExitFindings = 1
	exitUsage    = 2
	ExitIO       = 3
	ExitInvalid  = 4
)

// usageError reports an invalid command line.
type usageError struct{ err error }

func (e *usageError) Error() string { return e.err.Error() }

func (e *usageError) Unwrap() error { return e.err }

// wrongUsage joins errors into one usageError; nil if there are none.
func wrongUsage(errs ...error) error {
	for i, err := range errs {
		if usage, is := errors.AsType[*usageError](err); is {
			errs[i] = usage.err
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &usageError{err}
	}
	return nil
}

// exitCode returns the exit code of an error. For joined errors it is the code of
// the first kind that occurs: an invalid command line, an invalid input, a
// retryable error, findings.
func exitCode(err error) int {
	if state, is := errors.AsType[*stateError](err); is {
		return exitCodes[state.state]
	}
	switch {
	case isA[*statusUsageError](err), isPermanent(err):
		return ExitInvalid
	case wantsHelp(err), isA[*transform.OptionsError](err):
		return exitUsage
	case isA[*source.InvalidError](err), isA[*ocilayout.InvalidError](err), errors.Is(err, extractor.ErrInvalid), isA[*operand.RenderError](err),
		isA[*imagesjson.SyntaxError](err), isA[*imagesjson.EntryError](err):
		return ExitInvalid
	case isA[*operand.ImageError](err), isA[*extractor.Error](err):
		return ExitIO
	case isA[*operand.MissingError](err), isA[*operand.DuplicateError](err), isA[*findingsError](err), isA[*differencesError](err), isA[*verdict.RejectedError](err):
		return ExitFindings
	}
	return ExitIO
}

// wantsHelp reports whether the help of the command helps to correct an error.
func wantsHelp(err error) bool {
	return isA[*usageError](err) || isA[*source.ArgumentError](err) || isA[*findings.ConfigError](err)
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

// report writes an error, with one line for each joined error.
func report(w io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "capi-manifests: %s\n", term.Printable(strings.TrimSuffix(line, "\n")))
	}
}
