// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// Choice is a flag with one of some texts as its value: a pflag.Value.
type Choice[T ~string] struct {
	Value *T
	// Kind is the name of the value in the help.
	Kind string
	// Zero is the text of the zero value; empty if that is none of the texts.
	Zero  string
	Texts []string
	// Error is the error of another text.
	Error string
}

func (c Choice[T]) String() string { return cmp.Or(string(*c.Value), c.Zero) }

// Set implements pflag.Value. An empty text is the zero value if that has a text.
func (c Choice[T]) Set(text string) error {
	if text = cmp.Or(text, c.Zero); !slices.Contains(c.Texts, text) {
		return errors.New(c.Error)
	}
	if *c.Value = T(text); text == c.Zero {
		*c.Value = ""
	}
	return nil
}

// Type implements pflag.Value.
func (c Choice[T]) Type() string { return c.Kind }

// Register adds the flag to a command, with its completion.
func (c Choice[T]) Register(cmd *cobra.Command, name, shorthand, usage string) {
	cmd.Flags().VarP(c, name, shorthand, usage)
	CompleteFixed(cmd, name, c.Texts...)
}

// CompleteFixed completes the value of a flag from the given ones.
func CompleteFixed(cmd *cobra.Command, flag string, values ...string) {
	// The only error is an unknown flag.
	_ = cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp))
}

// CompletePlatform completes the flag --platform.
func CompletePlatform(cmd *cobra.Command) {
	var platforms []string
	for _, platform := range contract.Platforms {
		platforms = append(platforms, string(platform))
	}
	CompleteFixed(cmd, "platform", platforms...)
}

// RegisterFormat adds the flag --output with the formats of a report, such as "findings". The zero value is the format text.
func RegisterFormat[F ~string](cmd *cobra.Command, format *F, formats []string, report string) {
	list := strings.Join(formats, ", ")
	Choice[F]{format, "format", "text", formats, "must be one of " + list}.Register(cmd, "output", "o", "format of the "+report+": "+list)
}

// RegisterColor adds the flag --color for an output, such as "text".
func RegisterColor(cmd *cobra.Command, mode *term.ColorMode, output string) {
	Choice[term.ColorMode]{mode, "when", "auto", []string{"auto", "always", "never"}, "must be auto, always or never"}.
		Register(cmd, "color", "", "color of the "+output+": auto (on a terminal, unless NO_COLOR is set), always or never")
}

// RegisterSeverity adds the flag --severity.
func RegisterSeverity(cmd *cobra.Command, least *contract.Severity) {
	Choice[contract.Severity]{least, "severity", "", []string{"error", "warning", "info"}, "want error, warning or info"}.
		Register(cmd, "severity", "", "minimum `severity` to report: error, warning or info")
}
