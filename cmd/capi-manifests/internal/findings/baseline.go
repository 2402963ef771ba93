// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"bytes"
	"encoding/json"
	"os"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// fingerprint identifies a finding independently of its line.
func fingerprint(f contract.Finding) string {
	return strings.Join([]string{f.Rule, f.Object, f.Field}, "|")
}

// baselineFile is the format of a baseline: the findings that existed when a
// provider began to use the rules.
type baselineFile struct {
	// Findings are counted by rule, object and field.
	Findings []baselineEntry `json:"findings"`
}

type baselineEntry struct {
	Rule   string `json:"rule"`
	Object string `json:"object,omitempty"`
	Field  string `json:"field,omitempty"`
	Count  int    `json:"count"`
}

// ReadBaseline reads the number of accepted findings by the identity of the finding.
func ReadBaseline(file string) (map[string]int, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	if data, err = yamldoc.ToUTF8(data); err != nil {
		return nil, &ConfigError{file, err}
	}
	var written baselineFile
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&written); err != nil {
		return nil, &ConfigError{file, err}
	}
	known := map[string]int{}
	for _, entry := range written.Findings {
		known[fingerprint(contract.Finding{Rule: entry.Rule, Object: entry.Object, Field: entry.Field})] += entry.Count
	}
	return known, nil
}

// WriteBaseline writes the findings, sorted, so that a diff is easy to review.
func WriteBaseline(file string, v Report) error {
	counts := map[baselineEntry]int{}
	for _, f := range v.all() {
		counts[baselineEntry{Rule: f.Rule, Object: f.Object, Field: f.Field}]++
	}
	written := baselineFile{Findings: []baselineEntry{}}
	for entry, count := range counts {
		entry.Count = count
		written.Findings = append(written.Findings, entry)
	}
	slices.SortFunc(written.Findings, func(a, b baselineEntry) int {
		return strings.Compare(a.Rule+"|"+a.Object+"|"+a.Field, b.Rule+"|"+b.Object+"|"+b.Field)
	})
	var out bytes.Buffer
	if err := term.EncodeJSON(&out, written); err != nil {
		return err
	}
	return os.WriteFile(file, out.Bytes(), 0o644)
}
