// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// Output is the output format of a command. The zero value is a table.
type Output string

// The output formats.
const (
	Table Output = ""
	JSON  Output = "json"
	YAML  Output = "yaml"
	// HTML is a format of some commands only.
	HTML Output = "html"
)

func (o *Output) String() string { return cmp.Or(string(*o), "table") }

// Register adds the flag --output to a command, with the formats of Output and further ones.
func (o *Output) Register(cmd *cobra.Command, further ...string) {
	formats := append([]string{"table", "json", "yaml"}, further...)
	last := len(formats) - 1
	enumerated := strings.Join(formats[:last], ", ") + " or " + formats[last]
	Choice[Output]{o, "format", "table", formats, "must be " + enumerated}.Register(cmd, "output", "o", "output format: "+enumerated)
}

// Write writes data in the format; table writes it as a table, and html, for a command with this format, as a page.
func (o *Output) Write(w io.Writer, data any, table func(*bytes.Buffer), html ...func(*bytes.Buffer) error) error {
	var out bytes.Buffer
	switch *o {
	case JSON:
		if err := term.EncodeJSON(&out, data); err != nil {
			return err
		}
	case YAML:
		if err := encodeYAML(&out, data); err != nil {
			return fmt.Errorf("writing YAML: %w", err)
		}
	case HTML:
		if err := html[0](&out); err != nil {
			return err
		}
	default:
		table(&out)
		_, err := io.WriteString(w, term.PrintableLines(out.String()))
		return err
	}
	_, err := w.Write(out.Bytes())
	return err
}

// encodeYAML writes data as YAML. The parser of YAML rejects some characters that encoding/json does not escape.
func encodeYAML(out *bytes.Buffer, data any) error {
	plain, err := json.Marshal(data)
	if err != nil {
		return err
	}
	var escaped bytes.Buffer
	for _, r := range string(plain) {
		if unicode.IsControl(r) || r == '\ufeff' || r == '\ufffe' || r == '\uffff' {
			fmt.Fprintf(&escaped, "\\u%04x", r)
			continue
		}
		escaped.WriteRune(r)
	}
	encoded, err := yaml.JSONToYAML(escaped.Bytes())
	out.Write(encoded)
	return err
}

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
