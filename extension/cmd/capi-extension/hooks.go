// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/extension/conformance"
)

const hooksLong = `List the Runtime Hooks of Cluster API: group, version, kinds of request and response, and whether an answer
can delay Cluster API (blocking). With the name of a hook, only that hook. "-o openapi" writes the OpenAPI document of the hooks, with
the schemas of requests and responses: authors can generate code from it in any language.`

const hooksExample = `  capi-extension hooks
  capi-extension hooks BeforeClusterCreate -o openapi
  capi-extension hooks -o json | jq -r '.[] | select(.blocking).name'`

func newHooks() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:       "hooks [HOOK]",
		Short:     "List the Runtime Hooks of Cluster API",
		Long:      hooksLong,
		Example:   hooksExample,
		ValidArgs: hookNames(),
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 1 && !slices.Contains(hookNames(), args[0]) {
				return usage(fmt.Errorf("unknown hook %q: want %s", args[0], strings.Join(hookNames(), ", ")))
			}
			return usage(cobra.MaximumNArgs(1)(cmd, args))
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			hooks := slices.DeleteFunc(conformance.Hooks(), func(h conformance.Hook) bool { return len(args) > 0 && h.Name != args[0] })
			return writeHooks(cmd, format, hooks)
		},
	}
	cmd.Flags().StringVarP(&format, "output", "o", "table", "output format: table, json, yaml, openapi")
	return cmd
}

func hookNames() (names []string) {
	for _, h := range conformance.Hooks() {
		names = append(names, h.Name)
	}
	return names
}

func writeHooks(cmd *cobra.Command, format string, hooks []conformance.Hook) error {
	var encoded []byte
	var err error
	switch format {
	case "table":
		return listHooks(cmd, hooks)
	case "json":
		encoded, err = json.MarshalIndent(hooks, "", "  ")
		encoded = append(encoded, '\n')
	case "yaml":
		encoded, err = yaml.Marshal(hooks)
	case "openapi":
		encoded, err = yaml.Marshal(conformance.OpenAPI(hooks))
	default:
		return usage(fmt.Errorf("invalid --output %q: must be table, json, yaml or openapi", format))
	}
	if err == nil {
		_, err = cmd.OutOrStdout().Write(encoded)
	}
	return err
}

func listHooks(cmd *cobra.Command, hooks []conformance.Hook) error {
	table := tabwriter.NewWriter(cmd.OutOrStdout(), 0, 0, 3, ' ', 0)
	fmt.Fprintln(table, "HOOK\tGROUP\tVERSION\tBLOCKING\tREQUEST\tRESPONSE")
	for _, h := range hooks {
		blocking, version := "no", h.Version
		if h.Blocking {
			blocking = "yes"
		}
		if h.Deprecated {
			version += " (deprecated)"
		}
		fmt.Fprintln(table, strings.Join([]string{h.Name, h.Group, version, blocking, h.Request, h.Response}, "\t"))
	}
	return table.Flush()
}
