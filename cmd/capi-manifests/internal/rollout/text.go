// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// Line is a line of text for a terminal, in parts of one color.
type Line []Part

// Part is printable text with the code of its color; an empty code is the color of the terminal.
type Part struct{ Code, Text string }

// Paint returns the line, with the codes of its colors if color is set.
func (l Line) Paint(color bool) string {
	paint := term.Painter(color)
	var out strings.Builder
	for _, part := range l {
		if part.Code == "" {
			out.WriteString(part.Text)
		} else {
			out.WriteString(paint(part.Code, part.Text))
		}
	}
	if color {
		return out.String()
	}
	return strings.TrimRight(out.String(), " ")
}

// Cut returns the line with at most width characters. If the line was longer, the
// last one is "…".
func (l Line) Cut(width int) Line {
	total := 0
	for _, part := range l {
		total += utf8.RuneCountInString(part.Text)
	}
	if total <= width {
		return l
	}
	var short Line
	left := max(width-1, 0)
	for _, part := range l {
		runes := []rune(part.Text)
		short = append(short, Part{part.Code, string(runes[:min(left, len(runes))])})
		left -= min(left, len(runes))
	}
	return append(short, Part{"", "…"})
}

// stateWords and stateColors are the states for people.
var (
	stateWords  = map[State]string{AtRest: "AT REST", RollingOut: "ROLLING OUT", Blocked: "BLOCKED"}
	stateColors = map[State]string{AtRest: "1;32", RollingOut: "1;34", Blocked: "1;31"}
)

// phaseMarks and phaseColors show the state of a phase.
var (
	phaseMarks = map[v1alpha1.PhaseState]string{
		v1alpha1.PhasePending: "○", v1alpha1.PhaseProgressing: "●", v1alpha1.PhaseBlocked: "✖", v1alpha1.PhaseComplete: "✔", v1alpha1.PhaseRemoving: "▼",
	}
	phaseColors = map[v1alpha1.PhaseState]string{
		v1alpha1.PhasePending: term.Faint, v1alpha1.PhaseProgressing: "34", v1alpha1.PhaseBlocked: "31", v1alpha1.PhaseComplete: "32", v1alpha1.PhaseRemoving: "33",
	}
)

// roleWords are the roles of versions for people.
var roleWords = map[Role]string{Installed: "installed", Desired: "being installed", Removing: "being removed", Replaced: "replaced, waits for its removal"}

// text collects lines.
type text struct {
	now   time.Time
	lines []Line
}

// Text returns the report for a terminal.
func (r Report) Text(now time.Time) []Line {
	w := &text{now: now}
	w.add(Part{stateColors[r.State], stateWords[r.State]}, Part{"", "  " + r.Summary})
	if r.Installer.State == Stopped && !r.Installer.Renewed.IsZero() {
		w.add(Part{term.Faint, "The report below is old: the last sign of life was " + w.age(r.Installer.Renewed) + " ago."})
	}
	for i, version := range r.Versions {
		w.version(version, i > 0)
	}
	w.list("Image overrides", overrideLines(r.Overrides))
	w.list("Signatures", r.signatureLines())
	w.list("Unmanaged CRDs", r.UnmanagedCRDs)
	w.list("Retained CRDs", r.RetainedCRDs)
	w.list("Reverted drift", w.driftLines(r.Drift))
	w.steps(r.NextSteps)
	return w.lines
}

// add adds a line and makes its text printable.
func (w *text) add(parts ...Part) {
	for i := range parts {
		parts[i].Text = term.Printable(parts[i].Text)
	}
	w.lines = append(w.lines, parts)
}

func (w *text) heading(title string) {
	w.add()
	w.add(Part{term.Bold, title})
}

func (w *text) list(title string, items []string) {
	if len(items) == 0 {
		return
	}
	w.heading(title)
	for _, item := range items {
		w.add(Part{"", "  " + item})
	}
}

func overrideLines(overrides []v1alpha1.ImageOverride) []string {
	lines := make([]string, len(overrides))
	for i, override := range overrides {
		lines[i] = override.Name + " = " + string(override.Image)
	}
	return lines
}

// shownDrift is the number of events about drift in the text.
const shownDrift = 5

func (w *text) driftLines(drift []Reverted) []string {
	var lines []string
	for _, reverted := range drift[:min(len(drift), shownDrift)] {
		lines = append(lines, w.age(reverted.Time)+" ago: "+reverted.Message)
	}
	if more := len(drift) - shownDrift; more > 0 {
		lines = append(lines, term.Plural(more, "older event", "older events")+"; -o json lists all")
	}
	return lines
}

// age formats the time since a moment, such as "2m10s".
func (w *text) age(since metav1.Time) string { return age(since, w.now) }

func age(since metav1.Time, now time.Time) string {
	return duration.HumanDuration(max(now.Sub(since.Time), 0))
}

// version writes the tree of a version: its components, and its phases with the objects that they wait for.
// The phases of an older version are one line if all are complete.
func (w *text) version(version Version, older bool) {
	w.add()
	title := []Part{{term.Bold, version.Name}, {"", "  " + roleWords[version.Role]}}
	if version.InstalledAs != "" {
		title = append(title, Part{term.Faint, "  with the objects of " + version.InstalledAs})
	}
	w.add(title...)
	w.add(Part{term.Faint, componentsText(version.Components)})
	if older && version.complete() {
		w.add(Part{"", "└── "}, Part{phaseColors[v1alpha1.PhaseComplete], phaseMarks[v1alpha1.PhaseComplete] + " all phases are complete"}, Part{"", fmt.Sprintf("  %d/%d", version.Ready, version.Objects)})
		return
	}
	width := 0
	for _, phase := range version.Phases {
		width = max(width, utf8.RuneCountInString(phase.Name))
	}
	for i, phase := range version.Phases {
		branch, below := "├── ", "│   "
		if i == len(version.Phases)-1 {
			branch, below = "└── ", "    "
		}
		w.phase(phase, width, branch, below)
	}
}

// complete reports whether a version has phases and all of them are complete.
func (v Version) complete() bool {
	incomplete := func(phase v1alpha1.Phase) bool { return phase.State != v1alpha1.PhaseComplete }
	return len(v.Phases) > 0 && !slices.ContainsFunc(v.Phases, incomplete)
}

// componentsText lists components with their versions, and marks overridden images.
func componentsText(components []v1alpha1.Component) string {
	names := make([]string, len(components))
	for i, component := range components {
		names[i] = strings.TrimSpace(component.Name + " " + component.Version)
		if component.Overridden {
			names[i] += " (overridden)"
		}
	}
	return strings.Join(names, ", ")
}

func (w *text) phase(phase v1alpha1.Phase, width int, branch, below string) {
	color := phaseColors[phase.State]
	w.add(Part{"", branch}, Part{color, phaseMarks[phase.State] + " " + phase.Name + strings.Repeat(" ", width-utf8.RuneCountInString(phase.Name))},
		Part{color, "  " + bar(phase) + "  "}, Part{"", fmt.Sprintf("%-9s", countText(phase))}, Part{color, w.stateText(phase)})
	for i, waiting := range phase.WaitingFor {
		twig := "├── "
		if i == len(phase.WaitingFor)-1 {
			twig = "└── "
		}
		w.add(Part{"", below + twig + strings.Join(nonEmpty(waiting.Object, waiting.Message), ": ")}, Part{term.Faint, " (" + w.age(waiting.Since) + ")"})
	}
}

func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// stateText formats the state of a phase, with its age while the state may still
// change.
func (w *text) stateText(phase v1alpha1.Phase) string {
	switch phase.State {
	case v1alpha1.PhaseProgressing, v1alpha1.PhaseBlocked, v1alpha1.PhaseRemoving:
		return string(phase.State) + " for " + w.age(phase.Since)
	default:
		return string(phase.State)
	}
}

// barWidth is the number of characters of a progress bar.
const barWidth = 20

// bar formats the progress bar of a phase.
func bar(phase v1alpha1.Phase) string {
	full := barWidth * percent(phase) / 100
	return strings.Repeat("█", full) + strings.Repeat("░", barWidth-full)
}

// percent returns the share of the ready objects of a phase. A phase without
// objects is at 100 when it is complete.
func percent(phase v1alpha1.Phase) int {
	switch {
	case phase.State == v1alpha1.PhaseComplete:
		return 100
	case phase.Objects == 0:
		return 0
	}
	return int(100 * int64(phase.Ready) / int64(phase.Objects))
}

// countText formats the ready objects of a phase, such as "3/9", or "9 left" during
// a teardown.
func countText(phase v1alpha1.Phase) string {
	if phase.State == v1alpha1.PhaseRemoving {
		return fmt.Sprintf("%d left", phase.Objects)
	}
	return fmt.Sprintf("%d/%d", phase.Ready, phase.Objects)
}

func (w *text) steps(steps []Step) {
	if len(steps) == 0 {
		return
	}
	w.heading("Next steps")
	for _, step := range steps {
		w.add(Part{"", "  " + step.Action})
		if step.Condition != "" {
			w.add(Part{term.Faint, fmt.Sprintf("    %s is %s (%s) for %s", step.Condition, step.Status, step.Reason, w.age(step.Since))})
		}
		if step.Cause != "" {
			w.add(Part{term.Faint, "    " + step.Cause})
		}
	}
}
