// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"testing"

	"github.com/capi-installer/capi-installer/build/clusterctl"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor"
)

func Example_generateSummary() {
	result := generated{
		Bundle: extractor.Bundle{Metadata: extractor.Metadata{ContentID: "sha256:1234"}},
		Summary: generate.Summary{
			Read: 5, Written: 4, Missing: []string{"Secret capi/credentials is not\x1b[2J in the bundle"},
			Results: []transform.Result{
				{Transform: "namespace", Changed: []string{"Service capi/a", "Role capi/b", "Service capi/c"}, Dropped: []string{"Namespace capi"}},
				{Transform: "pull-policy", Skipped: true},
				{Transform: "priority-class"},
			},
		},
		Release: clusterctl.Release{Notes: []string{"metadata.yaml has no series 1.0"}},
	}
	result.summarize(os.Stdout, []string{"a", "b", "c"}, true)
	// Output:
	// namespace                     3 changed (Role, 2 Service), 1 dropped (Namespace)
	//   changes Service capi/a
	//   changes Role capi/b
	//   changes Service capi/c
	//   drops Namespace capi
	// pull-policy                   skipped
	// priority-class                nothing to do
	// note: Secret capi/credentials is not�[2J in the bundle
	// note: metadata.yaml has no series 1.0
	// wrote a, b and c: 4 objects from 5, content ID sha256:1234
}

// The exit code of generate depends on the class: errors of files may end with a retry, errors of the content do
// not.
func TestInputError_MarksOnlyContent(t *testing.T) {
	for name, test := range map[string]struct {
		err     error
		invalid bool
	}{
		"content":   {errors.New("unknown field"), true},
		"an option": {fmt.Errorf("rendering: %w", &transform.OptionsError{Err: errors.New("unknown transform")}), false},
		"a file":    {fmt.Errorf("rendering: %w", &fs.PathError{Op: "open", Path: "x", Err: fs.ErrPermission}), false},
		"no error":  {nil, false},
	} {
		got := inputError(test.err)
		if _, invalid := errors.AsType[*source.InvalidError](got); invalid != test.invalid || !errors.Is(got, test.err) {
			t.Errorf("%s: got %v, invalid %t", name, got, invalid)
		}
	}
}
