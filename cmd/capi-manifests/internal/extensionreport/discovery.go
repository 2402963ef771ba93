// SPDX-License-Identifier: Apache-2.0

package extensionreport

import (
	"context"
	"fmt"
	"slices"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/extension"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
)

// Discover calls the hook Discovery of a server, and adds the findings about the server as a whole to the first bundle of a report.
func Discover(ctx context.Context, client extension.Client, url string, result *findings.Report) error {
	transcript, err := extension.Discover(ctx, client)
	if err != nil {
		return err
	}
	if err := transcript.Unreachable(); err != nil {
		return fmt.Errorf("calling %s: %w", url, err)
	}
	results := extension.Check(transcript, url)
	first := &result.Bundles[0]
	first.Findings = append(first.Findings, extension.Findings(results)...)
	first.More = slices.DeleteFunc(extension.ContractRules(), func(rule contract.Rule) bool {
		return !slices.ContainsFunc(results, func(r extension.Result) bool { return r.Rule == rule.ID })
	})
	result.Count()
	return nil
}
