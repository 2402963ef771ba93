// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rulebook"
	"github.com/capi-installer/capi-installer/internal/text"
)

const explainLong = `Explain a validation rule: the consequence of a violation, the fix and the source, with manifests
that keep the rule and manifests that violate it.
Without an argument all rules are listed, and with the first part of a name the rules of that group.`

const explainExample = `  capi-manifests explain
  capi-manifests explain installer
  capi-manifests explain installer/no-secret`

func newExplain() *cobra.Command {
	var format cli.Output
	cmd := &cobra.Command{
		Use:     "explain [RULE]",
		Short:   "Explain a validation rule",
		Long:    explainLong,
		Example: explainExample,
		Args:    knownRule,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return rulebook.IDs(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			all, err := rulebook.Explain(args)
			if err != nil {
				return err
			}
			if len(args) == 0 || len(rulebook.InGroup(args[0])) > 0 {
				return format.Write(cmd.OutOrStdout(), all, func(w *bytes.Buffer) { rulebook.List(w, all) })
			}
			return format.Write(cmd.OutOrStdout(), all[0], all[0].Text)
		},
	}
	format.Register(cmd)
	return cmd
}

// knownRule rejects unknown rules and suggests similar ones.
func knownRule(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0, len(args) == 1 && (slices.Contains(rulebook.IDs(), args[0]) || len(rulebook.InGroup(args[0])) > 0):
		return nil
	case len(args) > 1:
		return cli.Args(0, 1, "")(cmd, args)
	}
	const few = 5
	unlike := func(id string) bool { return !strings.Contains(id, args[0]) && text.EditDistance(id, args[0]) > 2 }
	if like := slices.DeleteFunc(rulebook.IDs(), unlike); len(like) > 0 && len(like) <= few {
		return cli.WrongUsage(fmt.Errorf("unknown rule %q; did you mean %s?", args[0], strings.Join(like, " or ")))
	}
	return cli.WrongUsage(fmt.Errorf("unknown rule %q; \"capi-manifests explain\" lists all rules", args[0]))
}
