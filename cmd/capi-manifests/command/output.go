// SPDX-License-Identifier: Apache-2.0

package command

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

// output is the output format of a command: a pflag.Value. The zero value is a
// table.
type output string

const (
	asTable output = ""
	asJSON  output = "json"
	asYAML  output = "yaml"
)

func (o *output) String() string {
	if *o == asTable {
		return "table"
	}
	return string(*o)
}

// Set implements pflag.Value.
func (o *output) Set(text string) error {
	if text == "table" {
		text = ""
	}
	if !slices.Contains([]output{asTable, asJSON, asYAML}, output(text)) {
		return errors.New("must be table, json or yaml")
	}
	*o = output(text)
	return nil
}

// Type implements pflag.Value.
func (o *output) Type() string { return "format" }

func (o *output) register(cmd *cobra.Command) {
	cmd.Flags().VarP(o, "output", "o", "output format: table, json or yaml")
	// The only error is an unknown flag.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// write writes data in the format; table writes it as a table.
func (o *output) write(w io.Writer, data any, table func(*bytes.Buffer)) error {
	var out bytes.Buffer
	switch *o {
	case asJSON:
		if err := term.EncodeJSON(&out, data); err != nil {
			return err
		}
	case asYAML:
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
