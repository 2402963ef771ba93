// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"strings"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// Changes returns the facts of a report that are not in the previous one, a line
// each, for logs. The first report is compared with the zero Report. Lines have no
// times, because a passing time is not a new fact.
func (r Report) Changes(previous Report) []string {
	before := map[string]bool{}
	for _, line := range previous.facts() {
		before[line] = true
	}
	var changed []string
	for _, line := range r.facts() {
		if !before[line] {
			changed = append(changed, term.Printable(line))
		}
	}
	return changed
}

// facts returns the report as lines without times. The summary comes last, because its counts change most often.
func (r Report) facts() []string {
	var lines []string
	if r.Installer.Cause != "" {
		lines = append(lines, fmt.Sprintf("installer: %s: %s", r.Installer.State, r.Installer.Cause))
	}
	for _, version := range r.Versions {
		lines = append(lines, fmt.Sprintf("version %s: %s", version.Name, roleWords[version.Role]))
		for _, phase := range version.Phases {
			name := "version " + version.Name + ", phase " + phase.Name
			lines = append(lines, fmt.Sprintf("%s: %s, %s", name, phase.State, countText(phase, version.removing())))
			for _, waiting := range phase.WaitingFor {
				lines = append(lines, name+" waits for "+strings.Join(nonEmpty(waiting.Object, waiting.Message), ": "))
			}
		}
	}
	for _, override := range overrideLines(r.Overrides) {
		lines = append(lines, "image override: "+override)
	}
	for _, verdict := range r.signatureLines(all) {
		lines = append(lines, "signatures: "+verdict)
	}
	for _, crd := range r.RetainedCRDs {
		lines = append(lines, "retained CRD: "+crd)
	}
	for _, reverted := range r.Drift {
		lines = append(lines, "reverted drift at "+reverted.Time.UTC().Format("15:04:05")+": "+reverted.Message)
	}
	for _, step := range r.NextSteps {
		lines = append(lines, "next step: "+strings.Join(nonEmpty(step.Action, step.Cause), " Cause: "))
	}
	if r.State != "" {
		lines = append(lines, stateWords[r.State]+": "+r.Summary)
	}
	return lines
}
