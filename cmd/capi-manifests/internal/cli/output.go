// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// Output is the output format of a command: a pflag.Value. The zero value is a
// table.
type Output string

// The output formats.
const (
	Table Output = ""
	JSON  Output = "json"
	YAML  Output = "yaml"
	// HTML is only a value of PageOutput.
	HTML Output = "html"
)

func (o *Output) String() string {
	if *o == Table {
		return "table"
	}
	return string(*o)
}

// Set implements pflag.Value.
func (o *Output) Set(text string) error {
	if text == "table" {
		text = ""
	}
	if !slices.Contains([]Output{Table, JSON, YAML}, Output(text)) {
		return errors.New("must be table, json or yaml")
	}
	*o = Output(text)
	return nil
}

// Type implements pflag.Value.
func (o *Output) Type() string { return "format" }

// Register adds the flag --output to a command.
func (o *Output) Register(cmd *cobra.Command) {
	cmd.Flags().VarP(o, "output", "o", "output format: table, json or yaml")
	// The only error is an unknown flag.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// PageOutput is an Output that can also be a page.
type PageOutput Output

func (o *PageOutput) String() string { return (*Output)(o).String() }

// Set implements pflag.Value.
func (o *PageOutput) Set(text string) error {
	if text == string(HTML) {
		*o = PageOutput(HTML)
		return nil
	}
	if (*Output)(o).Set(text) != nil {
		return errors.New("must be table, json, yaml or html")
	}
	return nil
}

// Type implements pflag.Value.
func (o *PageOutput) Type() string { return "format" }

// Register adds the flag --output to a command.
func (o *PageOutput) Register(cmd *cobra.Command) {
	cmd.Flags().VarP(o, "output", "o", "output format: table, json, yaml or html")
	// The only error is an unknown flag.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml", "html"}, cobra.ShellCompDirectiveNoFileComp))
}

// Write writes data in the format; table writes it as a table.
func (o *Output) Write(w io.Writer, data any, table func(*bytes.Buffer)) error {
	var out bytes.Buffer
	switch *o {
	case JSON:
		if err := term.EncodeJSON(&out, data); err != nil {
			return err
		}
	case YAML:
		encoded, err := yaml.Marshal(data)
		if err != nil {
			return fmt.Errorf("writing YAML: %w", err)
		}
		out.Write(encoded)
	default:
		table(&out)
		_, err := io.WriteString(w, term.PrintableLines(out.String()))
		return err
	}
	_, err := w.Write(out.Bytes())
	return err
}
