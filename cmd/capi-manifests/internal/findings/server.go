// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/source"
	"github.com/capi-installer/capi-installer/extractor"
)

// CheckedRules returns the number of checked rules; server reports whether an API server checks the bundles.
func (v *Report) CheckedRules(server bool) int {
	var of Bundle
	if len(v.Bundles) > 0 {
		of = v.Bundles[0] // all have the same form
	}
	return len(slices.DeleteFunc(of.Rules(), func(rule contract.Rule) bool { return rule.Checker == contract.CheckerServer && !server }))
}

// AskServer adds the findings of an API server in the bundles of a report.
func (v *Report) AskServer(ctx context.Context, bundles []extractor.Bundle, server contract.Server) error {
	for i, bundle := range bundles {
		list, err := contract.CheckAgainst(ctx, bundle, server, rules.All())
		if err != nil {
			return err
		}
		for j := range list {
			list[j].File = FileOf(v.Source, bundle, list[j].File)
		}
		v.Bundles[i].Findings, v.Bundles[i].AskedServer = append(v.Bundles[i].Findings, list...), true
	}
	v.Count()
	return nil
}

// AskServerAboutReleases adds the findings of an API server about the releases of a report. A line with an error
// has its cause already.
func (v *Report) AskServerAboutReleases(ctx context.Context, server contract.Server) error {
	for i, bundle := range v.Bundles {
		release, err := source.ReadClusterctlRelease(v.Source, bundle.Release)
		if err != nil {
			return err
		}
		list, err := contract.CheckReleaseAgainst(ctx, release, server, rules.All())
		if err != nil {
			return err
		}
		for _, f := range list {
			f.File = filepath.Join(v.Source, bundle.Release, f.File)
			known := slices.ContainsFunc(bundle.Findings, func(other contract.Finding) bool {
				return other.Severity == contract.Error && other.File == f.File && other.Line == f.Line
			})
			if !known {
				v.Bundles[i].Findings = append(v.Bundles[i].Findings, f)
			}
		}
		v.Bundles[i].AskedServer = true
	}
	v.Count()
	return nil
}
