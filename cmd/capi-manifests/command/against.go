// SPDX-License-Identifier: Apache-2.0

package command

import (
	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/extractor"
)

// askServer adds the findings of the API server of --against about bundles, or about the templates of the releases of the result.
func (o *validateOptions) askServer(cmd *cobra.Command, result *findings.Report, bundles []extractor.Bundle) error {
	if o.against == "" || result.Invalid {
		return nil
	}
	server, err := apiserver.Open(cmd.Context(), o.against, cmd.ErrOrStderr())
	if err != nil {
		return err
	}
	if bundles == nil {
		return result.AskServerAboutTemplates(cmd.Context(), server)
	}
	return result.AskServer(cmd.Context(), bundles, server)
}
