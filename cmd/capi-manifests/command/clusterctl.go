// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"os"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build"
)

// clusterctlFlags say whether a release for clusterctl is written too.
type clusterctlFlags struct{ repository, metadata string }

func (f *clusterctlFlags) register(cmd *cobra.Command) {
	set := cmd.Flags()
	set.StringVar(&f.repository, "clusterctl-dir", "", "also write what clusterctl installs of the same directory, without the edits for OpenShift, to <provider label>/<version> below this `directory`")
	set.StringVar(&f.metadata, "clusterctl-metadata", "", "`file`: the provider's own metadata.yaml with its release series; without it one is made for this version")
	_ = cmd.MarkFlagDirname("clusterctl-dir") // both flags exist
	_ = cmd.MarkFlagFilename("clusterctl-metadata", "yaml")
}

// release makes the release, if it is asked for.
func (f *clusterctlFlags) release(options build.GenerateOptions) (build.ClusterctlRelease, error) {
	switch {
	case f.repository == "" && f.metadata != "":
		return build.ClusterctlRelease{}, &build.OptionsError{Err: errors.New("--clusterctl-metadata is for --clusterctl-dir, which is missing")}
	case f.repository == "":
		return build.ClusterctlRelease{}, nil
	}
	var metadata []byte
	if f.metadata != "" {
		var err error
		if metadata, err = os.ReadFile(f.metadata); err != nil {
			return build.ClusterctlRelease{}, err
		}
	}
	return build.Clusterctl(options, metadata)
}
