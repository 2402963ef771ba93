// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/extension"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

const extensionLong = `Check servers of Runtime Extensions, and list the Runtime Hooks of Cluster API that they can implement.`

func newExtension(version string) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "extension",
		Short: "Check Runtime Extensions of Cluster API",
		Long:  extensionLong,
		Example: `  capi-manifests extension hooks
  capi-manifests extension test https://localhost:9443 --ca-bundle ca.crt`,
		Args: cli.KnownCommand,
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(newExtensionTest(version), newExtensionHooks())
	return cmd
}

const hooksLong = `List the Runtime Hooks of Cluster API: group, version, kinds of request and response, and whether an answer
can delay Cluster API (blocking). With the name of a hook, only that one. "-o openapi" writes the OpenAPI document of the hooks, with
the schemas of requests and responses: authors can generate code from it in any language.`

const hooksExample = `  capi-manifests extension hooks
  capi-manifests extension hooks BeforeClusterCreate -o openapi
  capi-manifests extension hooks -o json | jq -r '.[] | select(.blocking).name'`

// openAPI is a format of "extension hooks" only.
const openAPI = "openapi"

var hooksFormats = []string{"table", "json", "yaml", openAPI}

func newExtensionHooks() *cobra.Command {
	var format cli.Output
	cmd := &cobra.Command{
		Use:     "hooks [HOOK]",
		Short:   "List the Runtime Hooks of Cluster API",
		Long:    hooksLong,
		Example: hooksExample,
		Args:    knownHook,
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return hookNames(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			hooks := slices.DeleteFunc(extension.Hooks(), func(h extension.Hook) bool { return len(args) > 0 && h.Name != args[0] })
			if format == openAPI {
				document, err := yaml.Marshal(extension.OpenAPI(hooks))
				if err != nil {
					return fmt.Errorf("writing the OpenAPI document: %w", err)
				}
				_, err = cmd.OutOrStdout().Write(document)
				return err
			}
			return format.Write(cmd.OutOrStdout(), hooks, func(w *bytes.Buffer) { listHooks(w, hooks) })
		},
	}
	cli.Choice[cli.Output]{Value: &format, Kind: "format", Zero: "table", Texts: hooksFormats, Error: "must be table, json, yaml or openapi"}.
		Register(cmd, "output", "o", "output format: "+strings.Join(hooksFormats, ", "))
	return cmd
}

func hookNames() (names []string) {
	for _, h := range extension.Hooks() {
		names = append(names, h.Name)
	}
	return names
}

// knownHook rejects unknown hooks.
func knownHook(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) > 1:
		return cli.AtMostOneArg(cmd, args)
	case len(args) == 1 && !slices.Contains(hookNames(), args[0]):
		return cli.WrongUsage(fmt.Errorf("unknown hook %q: want one of %s", args[0], strings.Join(hookNames(), ", ")))
	}
	return nil
}

func listHooks(w *bytes.Buffer, hooks []extension.Hook) {
	term.Columns(w, []string{"HOOK", "GROUP", "VERSION", "BLOCKING", "REQUEST", "RESPONSE"}, term.Rows(hooks, func(h extension.Hook) []string {
		blocking := "no"
		if h.Blocking {
			blocking = "yes"
		}
		version := h.Version
		if h.Deprecated {
			version += " (deprecated)"
		}
		return []string{h.Name, h.Group, version, blocking, h.Request, h.Response}
	}))
}
