// SPDX-License-Identifier: Apache-2.0

package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"

	"github.com/spf13/cobra"
	"sigs.k8s.io/yaml"

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
