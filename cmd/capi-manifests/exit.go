// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/operand"
)

// The exit codes. What was lost by the way, such as a registry that does not answer, is exitIO.
const (
	exitGood     = 0
	exitFindings = 1
	exitUsage    = 2
	exitIO       = 3
	exitInvalid  = 4
)

// usageError says that the command line is wrong.
type usageError struct {
	command string
	err     error
}

func (e *usageError) Error() string {
	return fmt.Sprintf("%v\nsee %s --help", e.err, e.command)
}
func (e *usageError) Unwrap() error { return e.err }

// wrongUsage is one usageError of all errors that there are; nil if there is none.
func wrongUsage(cmd *cobra.Command, errs ...error) error {
	for i, err := range errs {
		if usage, is := errors.AsType[*usageError](err); is {
			errs[i] = usage.err
		}
	}
	if err := errors.Join(errs...); err != nil {
		return &usageError{cmd.CommandPath(), err}
	}
	return nil
}

// invalidError says that an input is wrong, so that trying again does not help.
type invalidError struct{ err error }

func (e *invalidError) Error() string { return e.err.Error() }
func (e *invalidError) Unwrap() error { return e.err }

// exitCode tells the exit code of an error. An error that joins several has the
// code that asks most of the user: a wrong command line, then what is wrong with
// an input, then what may pass, then what is missing in a release.
func exitCode(err error) int {
	switch {
	case isA[*usageError](err), isA[*build.OptionsError](err):
		return exitUsage
	case isA[*invalidError](err), errors.Is(err, extractor.ErrInvalid), isA[*operand.RenderError](err),
		isA[*imagesjson.SyntaxError](err), isA[*imagesjson.EntryError](err):
		return exitInvalid
	case isA[*operand.ImageError](err), isA[*extractor.Error](err):
		return exitIO
	case isA[*operand.MissingError](err), isA[*operand.DuplicateError](err), isA[*findingsError](err), isA[*differencesError](err):
		return exitFindings
	}
	return exitIO
}

func isA[E error](err error) bool {
	_, is := errors.AsType[E](err)
	return is
}

// report writes an error, one line for each that is joined in it.
func report(w io.Writer, err error) {
	for line := range strings.Lines(err.Error()) {
		fmt.Fprintf(w, "capi-manifests: %s\n", printable(strings.TrimSuffix(line, "\n")))
	}
}
