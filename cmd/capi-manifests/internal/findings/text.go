// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/capi-installer/capi-installer/build/contract"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

var severityColors = map[contract.Severity]string{contract.Error: "1;31", contract.Warning: "33", contract.Info: "36"}

// text writes a line for each finding, as compilers do, and then the fixes of the
// violated rules.
func (v Report) text(out *bytes.Buffer, color bool) {
	paint := term.Painter(color)
	fixes := map[string]string{}
	var rules []string
	for _, finding := range folded(v.all()) {
		fmt.Fprintf(out, "%s: %s: %s [%s]\n", paint(term.Bold, term.Printable(place(finding))), paint(severityColors[finding.Severity], string(finding.Severity)),
			term.Printable(sentence(finding)), paint(term.Faint, finding.Rule))
		if _, known := fixes[finding.Rule]; !known {
			rules = append(rules, finding.Rule)
		}
		fixes[finding.Rule] = finding.Fix
	}
	for _, rule := range rules {
		fmt.Fprintf(out, "\n%s\n    %s\n", paint(term.Bold, rule), fixes[rule])
	}
}

// maxRepeated is the maximum number of findings with one cause that are listed separately.
const maxRepeated = 3

// folded merges findings with the same rule, severity and message, which have one cause, if there are more than maxRepeated. The first
// finding stands for all; its message ends with the number of the others and the places of two.
func folded(all []contract.Finding) (folded []contract.Finding) {
	places := map[string][]string{}
	keyOf := func(f contract.Finding) string { return f.Rule + " " + string(f.Severity) + " " + f.Message }
	for _, f := range all {
		places[keyOf(f)] = append(places[keyOf(f)], place(f))
	}
	for _, f := range all {
		key := keyOf(f)
		at := places[key]
		if len(at) > maxRepeated {
			f.Message += fmt.Sprintf(" (and %d more, at %s and %s)", len(at)-1, at[1], at[2])
			places[key] = nil
		}
		if at != nil {
			folded = append(folded, f)
		}
	}
	return folded
}

func place(finding contract.Finding) string {
	if finding.Line == 0 {
		return finding.File
	}
	return fmt.Sprintf("%s:%d", finding.File, finding.Line)
}

// sentence returns the message with the object and the field.
func sentence(finding contract.Finding) string {
	where := strings.TrimSpace(finding.Object + " " + finding.Field)
	if where == "" {
		return finding.Message
	}
	return where + ": " + finding.Message
}

// Summary formats the number of findings: "2 errors, 1 warning", or the number of checked rules if there are none.
func Summary(counts map[contract.Severity]int, rules int) string {
	var parts []string
	for _, severity := range contract.Severities() {
		switch count := counts[severity]; {
		case count == 1:
			parts = append(parts, "1 "+string(severity))
		case count > 1:
			parts = append(parts, fmt.Sprintf("%d %ss", count, severity))
		}
	}
	if len(parts) == 0 {
		return fmt.Sprintf("no findings, %d rules checked", rules)
	}
	return strings.Join(parts, ", ")
}

// annotation formats a workflow command of GitHub Actions. For a path that is not
// in the repository, GitHub shows the annotation without a location.
func annotation(finding contract.Finding) string {
	command := map[contract.Severity]string{contract.Error: "error", contract.Warning: "warning", contract.Info: "notice"}[finding.Severity]
	value := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A")
	property := strings.NewReplacer("%", "%25", "\r", "%0D", "\n", "%0A", ":", "%3A", ",", "%2C")
	where := "file=" + property.Replace(filepath.ToSlash(finding.File))
	if finding.Line > 0 {
		where += fmt.Sprintf(",line=%d", finding.Line)
	}
	text := value.Replace(sentence(finding) + "\n" + finding.Fix)
	return term.Printable(fmt.Sprintf("::%s %s,title=%s::%s", command, where, property.Replace(finding.Rule), text)) + "\n"
}
