// SPDX-License-Identifier: Apache-2.0

// Package rulebook explains the rules of "validate".
package rulebook

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/build/contract/rules"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// Explanation is the output form of a rule.
type Explanation struct {
	ID       string            `json:"id"`
	Severity contract.Severity `json:"severity"`
	Forms    []contract.Form   `json:"forms"`
	Why      string            `json:"why"`
	Fix      string            `json:"fix"`
	Source   contract.Source   `json:"source"`
	// Good and Bad are manifests that comply with the rule and manifests that
	// violate it, at comments that begin with "<-".
	Good string `json:"good"`
	Bad  string `json:"bad"`

	about string // the kind of input that the rule checks
}

// IDs returns the IDs of all rules.
func IDs() []string {
	var ids []string
	for _, rule := range rules.All() {
		ids = append(ids, rule.ID)
	}
	return ids
}

// InGroup returns the rules of a group, such as "installer".
func InGroup(group string) []string {
	prefix := strings.TrimSuffix(group, "/") + "/"
	return slices.DeleteFunc(IDs(), func(id string) bool { return !strings.HasPrefix(id, prefix) })
}

// Explain returns the explanations of a rule, of a group of rules, or of all
// rules.
func Explain(ids []string) ([]Explanation, error) {
	var all []Explanation
	for _, rule := range rules.All() {
		if len(ids) > 0 && rule.ID != ids[0] && !slices.Contains(InGroup(ids[0]), rule.ID) {
			continue
		}
		example, err := rule.Example()
		if err != nil {
			return nil, err
		}
		all = append(all, Explanation{rule.ID, rule.Severity, rule.Forms(), rule.Why, rule.Fix, rule.Source, example.Good, example.Bad, rule.About()})
	}
	return all, nil
}

// List writes a table of rules.
func List(w *bytes.Buffer, all []Explanation) {
	term.Columns(w, []string{"RULE", "SEVERITY", "ABOUT", "SOURCE"}, term.Rows(all, func(e Explanation) []string {
		return []string{e.ID, string(e.Severity), e.about, e.Source.Document + ", " + e.Source.Section}
	}))
}

// Text writes the explanation of a rule with its examples.
func (e Explanation) Text(w *bytes.Buffer) {
	fmt.Fprintf(w, "%s (%s, about %s)\n\n%s\n\n%s\n\nSource: %s\n", e.ID, e.Severity, e.about, e.Why, e.Fix, e.Source)
	fmt.Fprintf(w, "\nGood:\n\n%s\nBad, at each \"<-\":\n\n%s", indented(e.Good), indented(e.Bad))
}

func indented(text string) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		out.WriteString("    " + line)
	}
	return out.String()
}
