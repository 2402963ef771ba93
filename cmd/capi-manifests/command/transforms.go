// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build"
)

const transformsLong = `Transforms lists the edits by which "generate" makes what OpenShift installs of a
provider's own manifests, in the order in which they are applied; with a name it tells why that
one is there. "generate --transform NAME" applies only those that are named, and
"generate --skip-transform NAME" all others.`

const transformsExample = `  capi-manifests transforms
  capi-manifests transforms namespace
  capi-manifests transforms -o json | jq -r '.[].name'`

// transform is a transform as data.
type transform struct {
	Name string `json:"name"`
	Does string `json:"does"`
	Why  string `json:"why"`
}

func newTransforms() *cobra.Command {
	var format output
	cmd := &cobra.Command{
		Use:       "transforms [NAME]",
		Short:     "List how generate edits manifests for OpenShift, and why",
		Long:      transformsLong,
		Example:   transformsExample,
		Args:      knownTransform,
		ValidArgs: transformNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			all := transformsNamed(args)
			return format.write(cmd.OutOrStdout(), all, func(w *bytes.Buffer) {
				if len(args) == 0 {
					columns(w, []string{"TRANSFORM", "DOES"}, rowsOf(all, func(t transform) []string { return []string{t.Name, t.Does} }))
					return
				}
				fmt.Fprintf(w, "%s\n\n%s\n\n%s\n", all[0].Name, all[0].Does, all[0].Why)
			})
		},
	}
	format.register(cmd)
	return cmd
}

// transformsNamed are the transforms with the names, or all of them.
func transformsNamed(names []string) []transform {
	var all []transform
	for _, t := range build.Transforms() {
		if len(names) == 0 || slices.Contains(names, t.Name) {
			all = append(all, transform{t.Name, t.Does, t.Why})
		}
	}
	return all
}

func transformNames() []string {
	var names []string
	for _, t := range build.Transforms() {
		names = append(names, t.Name)
	}
	return names
}

func knownTransform(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0, len(args) == 1 && slices.Contains(transformNames(), args[0]):
		return nil
	case len(args) > 1:
		return &usageError{cmd.CommandPath(), fmt.Errorf("one transform is wanted; there are %s", strings.Join(args, " "))}
	}
	return &usageError{cmd.CommandPath(), fmt.Errorf("there is no transform %q; there are %s", args[0], strings.Join(transformNames(), ", "))}
}

// transformHelp lists the transforms.
func transformHelp() string {
	var text strings.Builder
	for _, transform := range build.Transforms() {
		fmt.Fprintf(&text, "  %s\n      %s\n", transform.Name, transform.Does)
	}
	return text.String()
}
