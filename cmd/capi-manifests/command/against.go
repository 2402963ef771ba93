// SPDX-License-Identifier: Apache-2.0

package command

import (
	"errors"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/apiserver"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/findings"
	"github.com/capi-installer/capi-installer/extractor"
)

// against holds the flags of validate for an API server.
type against struct{ server, controlplane string }

func (a *against) register(flags *pflag.FlagSet) {
	flags.StringVar(&a.server, "against", "", "`kubeconfig` of an API server that checks the objects in dry runs, or \""+apiserver.Embedded+"\" to start one")
	flags.StringVar(&a.controlplane, "controlplane", "", "`file` of the program for --against embedded (default controlplane beside capi-manifests, in PATH, or built with Go)")
}

// rules returns the number of checked rules.
func (a *against) rules(v findings.Report) int {
	var of findings.Bundle
	if len(v.Bundles) > 0 {
		of = v.Bundles[0] // all have the same form
	}
	checked := slices.DeleteFunc(of.Rules(), func(rule contract.Rule) bool { return rule.Checker == contract.CheckerServer && a.server == "" })
	return len(checked)
}

// add adds the findings of the API server.
func (a *against) add(cmd *cobra.Command, result *findings.Report, bundles []extractor.Bundle) error {
	if a.server == "" {
		if a.controlplane != "" {
			return cli.WrongUsage(errors.New("--controlplane requires --against " + apiserver.Embedded))
		}
		return nil
	}
	server, stop, err := a.open(cmd)
	if err != nil {
		return err
	}
	defer stop()
	for i, bundle := range bundles {
		list, err := contract.CheckAgainst(cmd.Context(), bundle, server, rules.All())
		if err != nil {
			return err
		}
		for j := range list {
			list[j].File = findings.FileOf(result.Source, bundle, list[j].File)
		}
		result.Bundles[i].Findings, result.Bundles[i].AskedServer = append(result.Bundles[i].Findings, list...), true
	}
	result.Count()
	return nil
}

// open connects to the API server, or starts one.
func (a *against) open(cmd *cobra.Command) (server *apiserver.Cluster, stop func(), err error) {
	return apiserver.Open(cmd.Context(), a.server, a.controlplane, cmd.ErrOrStderr())
}
