// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/transform"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/cli"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

const transformsLong = `List the edits that "generate" makes in the manifests of a provider, in the order of
application. PROFILE is the kind of cluster that the edit is for; empty is every kind. With a name, explain one transform. "generate --transform NAME"
applies only the named ones, and "generate --skip-transform NAME" all others.`

const transformsExample = `  capi-manifests transforms
  capi-manifests transforms namespace
  capi-manifests transforms -o json | jq -r '.[].name'`

// transformEntry is the output form of a transform.
type transformEntry struct {
	transform.Transform
	// Profile is the name of the only cluster profile that the transform is for; empty means every profile.
	Profile string `json:"profile,omitempty"`
}

func newTransforms() *cobra.Command {
	var format cli.Output
	cmd := &cobra.Command{
		Use:       "transforms [NAME]",
		Short:     "List the edits that generate makes",
		Long:      transformsLong,
		Example:   transformsExample,
		Args:      knownTransform,
		ValidArgs: transformNames(),
		RunE: func(cmd *cobra.Command, args []string) error {
			all := transformsNamed(args)
			return format.Write(cmd.OutOrStdout(), all, func(w *bytes.Buffer) {
				if len(args) == 0 {
					term.Columns(w, []string{"TRANSFORM", "PROFILE", "DOES"}, term.Rows(all, func(t transformEntry) []string { return []string{t.Name, t.Profile, t.Does} }))
					return
				}
				fmt.Fprintf(w, "%s\n\n%s\n\n%s\n", all[0].Name, all[0].Does, all[0].Why)
			})
		},
	}
	format.Register(cmd)
	return cmd
}

// transformsNamed returns the transforms with the given names, or all if there are
// none.
func transformsNamed(names []string) []transformEntry {
	var all []transformEntry
	for _, t := range transform.All() {
		if len(names) == 0 || slices.Contains(names, t.Name) {
			all = append(all, transformEntry{t, profileOf(t)})
		}
	}
	return all
}

func profileOf(t transform.Transform) string {
	if t.Profile == nil {
		return ""
	}
	return t.Profile.String()
}

func transformNames() []string {
	var names []string
	for _, t := range transform.All() {
		names = append(names, t.Name)
	}
	return names
}

func knownTransform(cmd *cobra.Command, args []string) error {
	switch {
	case len(args) == 0, len(args) == 1 && slices.Contains(transformNames(), args[0]):
		return nil
	case len(args) > 1:
		return cli.Args(0, 1, "")(cmd, args)
	}
	return cli.WrongUsage(fmt.Errorf("unknown transform %q: want one of %s", args[0], strings.Join(transformNames(), ", ")))
}
