// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"errors"
	"io/fs"
	"testing"

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
		{"a wrong flag", &UsageError{errors.New("unknown flag")}, ExitUsage},
		{"wrong options", &transform.OptionsError{Err: errors.New("no name")}, ExitUsage},
		{"an unavailable registry", image(unreachable), ExitIO},
		{"a missing file", fs.ErrNotExist, ExitIO}, {"a missing file of a flag", WrongUsage(fs.ErrNotExist), ExitIO},
		{"an invalid image", image(invalid), ExitInvalid},
		{"an invalid image, and an unavailable registry", errors.Join(image(unreachable), image(invalid)), ExitInvalid},
		{"a release with an invalid and with a missing provider", errors.Join(&operand.MissingError{}, image(invalid)), ExitInvalid},
		{"a release with a missing provider that an unreadable image can contain", errors.Join(&operand.MissingError{}, image(unreachable)), ExitIO},
		{"a missing provider", &operand.MissingError{}, ExitFindings},
		{"a duplicate provider", &operand.DuplicateError{}, ExitFindings},
		{"manifests that cannot be rendered", &operand.RenderError{Err: errors.New("no value")}, ExitInvalid},
		{"an invalid entry of images.json", &imagesjson.EntryError{Err: errors.New("no digest")}, ExitInvalid},
		{"a rollout at rest", &rollout.StateError{State: rollout.AtRest}, ExitGood},
		{"a rollout in progress", &rollout.StateError{State: rollout.RollingOut}, 1},
		{"a blocked rollout", &rollout.StateError{State: rollout.Blocked}, 2},
		{"a paused installer", &rollout.StateError{State: rollout.Paused}, 2},
		{"an invalid command line of status", &statusUsageError{&UsageError{errors.New("unknown flag")}}, ExitInvalid},
		{"an unavailable API server", &installed.AccessError{Err: errors.New("connection refused")}, ExitIO},
		{"missing permissions", &installed.AccessError{Err: errors.New("forbidden"), Permanent: true}, ExitInvalid},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := ExitCode(c.err); got != c.want {
				t.Errorf("got %d, want %d", got, c.want)
			}
		})
	}
}
