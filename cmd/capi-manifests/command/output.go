// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"
)

// output is the format of a command's data: a pflag.Value. The zero value is a table.
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
		return errors.New("the formats are table, json and yaml")
	}
	*o = output(text)
	return nil
}

// Type implements pflag.Value.
func (o *output) Type() string { return "format" }

func (o *output) register(cmd *cobra.Command) {
	cmd.Flags().VarP(o, "output", "o", "format of the data: table, json or yaml")
	// The only error is that there is no such flag.
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions([]string{"table", "json", "yaml"}, cobra.ShellCompDirectiveNoFileComp))
}

// write writes data in the format, for people with table.
func (o *output) write(w io.Writer, data any, table func(*bytes.Buffer)) error {
	var out bytes.Buffer
	switch *o {
	case asJSON:
		if err := encodeJSON(&out, data); err != nil {
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
		_, err := io.WriteString(w, printableLines(out.String()))
		return err
	}
	_, err := w.Write(out.Bytes())
	return err
}

// columns writes a table with a header, and an empty line before it
// unless it is the first; nothing if there are no rows.
func columns(w *bytes.Buffer, header []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	if w.Len() > 0 {
		w.WriteByte('\n')
	}
	aligned(w, append([][]string{header}, rows...))
}

// aligned writes rows with aligned columns, and no blanks at the ends of lines.
func aligned(w io.Writer, rows [][]string) {
	var out bytes.Buffer
	tab := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tab, strings.Join(row, "\t"))
	}
	_ = tab.Flush() // into a buffer: it cannot fail
	for line := range strings.Lines(out.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}

// rowsOf returns a row for each item.
func rowsOf[T any](items []T, row func(T) []string) [][]string {
	rows := make([][]string, len(items))
	for i, item := range items {
		rows[i] = row(item)
	}
	return rows
}

// orNone shows an empty text as a dash.
func orNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
