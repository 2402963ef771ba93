// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"io/fs"
	"testing"

	"github.com/capi-installer/capi-installer/build/bundle"
	"github.com/capi-installer/capi-installer/build/pack"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/installed"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/extractor"
	"github.com/capi-installer/capi-installer/imagesjson"
	"github.com/capi-installer/capi-installer/install/operand"
)

func TestExitCode(t *testing.T) {
	image := func(err error) error { return &operand.ImageError{Err: &extractor.Error{Err: err}} }
	unreachable, invalid := errors.New("connection refused"), &extractor.InvalidError{Err: errors.New("no metadata")}
	for _, c := range []struct {
		name string
		err  error
		want int
	}{
		{"a wrong flag", &usageError{errors.New("unknown flag")}, exitUsage},
		{"wrong options", &transform.OptionsError{Err: errors.New("no name")}, exitUsage},
		{"a registry that does not answer", image(unreachable), ExitIO},
		{"a file that is not there", fs.ErrNotExist, ExitIO},
		{"an invalid image", image(invalid), ExitInvalid},
		{"an invalid image, and a registry that does not answer", errors.Join(image(unreachable), image(invalid)), ExitInvalid},
		{"a release with an invalid and with a missing provider", errors.Join(&operand.MissingError{}, image(invalid)), ExitInvalid},
		{"a release with a missing provider that an image may hold", errors.Join(&operand.MissingError{}, image(unreachable)), ExitIO},
		{"a missing provider", &operand.MissingError{}, ExitFindings},
		{"a provider twice", &operand.DuplicateError{}, ExitFindings},
		{"manifests that cannot be rendered", &operand.RenderError{Err: errors.New("no value")}, ExitInvalid},
		{"a wrong entry of images.json", &imagesjson.EntryError{Err: errors.New("no digest")}, ExitInvalid},
		{"a bundle that cannot be packed", &pack.Error{Err: invalid}, ExitInvalid},
		{"a rollout at rest is no error", &stateError{state: rollout.AtRest}, ExitGood},
		{"a rollout in progress", &stateError{state: rollout.RollingOut}, 1},
		{"a blocked rollout", &stateError{state: rollout.Blocked}, 2},
		{"an invalid command line of status", &statusUsageError{&usageError{errors.New("unknown flag")}}, ExitInvalid},
		{"an API server that does not answer", &installed.AccessError{Err: errors.New("connection refused")}, ExitIO},
		{"missing permissions", &installed.AccessError{Err: errors.New("forbidden"), Permanent: true}, ExitInvalid},
		{"a disk that is full", &bundle.WriteError{Err: errors.New("no space left")}, ExitIO},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := exitCode(c.err); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
