// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"bytes"
	"fmt"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// Format is the format of a report. The zero value is text.
type Format string

// The formats.
const (
	Text Format = ""
	JSON Format = "json"
	YAML Format = "yaml"
	HTML Format = "html"
)

// Formats are the names of the formats.
var Formats = []string{"text", "json", "yaml", "html"}

// Write writes the report in a format. Text and HTML show durations until now; only text has color and a layout.
func (r Report) Write(out *bytes.Buffer, format Format, now time.Time, color bool, layout Layout) error {
	switch format {
	case JSON:
		return term.EncodeJSON(out, r)
	case YAML:
		return r.yaml(out)
	case HTML:
		return r.html(out, now)
	default:
		for _, line := range r.Text(now, layout) {
			out.WriteString(line.Paint(color) + "\n")
		}
		return nil
	}
}

// yaml writes the JSON form as YAML, in one document that begins with "---", so that
// the documents of a watch form a stream.
func (r Report) yaml(out *bytes.Buffer) error {
	encoded, err := yaml.Marshal(r)
	if err != nil {
		return fmt.Errorf("writing YAML: %w", err)
	}
	out.WriteString("---\n" + term.PrintableLines(string(encoded)))
	return nil
}
