// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/clusterctl"
	"github.com/capi-installer/capi-installer/build/generate"
	"github.com/capi-installer/capi-installer/build/transform"
)

// clusterctlFlags holds the flags for a clusterctl release.
type clusterctlFlags struct{ repository, metadata string }

func (f *clusterctlFlags) register(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.repository, "clusterctl-dir", "", "`directory` of a clusterctl repository; the release, without the edits for OpenShift, is written to <provider label>/<version> in it")
	set.StringVar(&f.metadata, "clusterctl-metadata", "", "`file` with the provider's metadata.yaml and its release series (default generated for this version)")
	_ = cmd.MarkFlagDirname("clusterctl-dir") // both flags exist
	_ = cmd.MarkFlagFilename("clusterctl-metadata", "yaml")
}

// release returns the clusterctl release, if a flag requests it.
func (f *clusterctlFlags) release(options generate.Options) (clusterctl.Release, error) {
	switch {
	case f.repository == "" && f.metadata != "":
		return clusterctl.Release{}, &transform.OptionsError{Err: errors.New("--clusterctl-metadata requires --clusterctl-dir")}
	case f.repository == "":
		return clusterctl.Release{}, nil
	}
	var metadata []byte
	if f.metadata != "" {
		var err error
		if metadata, err = os.ReadFile(f.metadata); err != nil {
			return clusterctl.Release{}, err
		}
	}
	return clusterctl.New(options, metadata)
}
