// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/verdict"
	"github.com/capi-installer/capi-installer/install/reason"
	names "github.com/capi-installer/capi-installer/internal/text"
)

// Layout is the form of the text. The zero value folds phases and has no limit of its width.
type Layout struct {
	// Width is the number of characters of a line; 0 is no limit.
	Width int
	// NoFold shows each complete and each pending phase, and all components.
	NoFold bool
}

// stateWords and stateColors are the states for people.
var (
	stateWords  = map[State]string{AtRest: "AT REST", RollingOut: "ROLLING OUT", Blocked: "BLOCKED", NotWorking: "NOT WORKING", Paused: "PAUSED"}
	stateColors = map[State]string{AtRest: "1;32", RollingOut: "1;34", Blocked: "1;31", NotWorking: "1;31", Paused: "1;33"}
)

// roleWords are the roles of versions for people.
var roleWords = map[Role]string{Installed: "installed", Desired: "being installed", Removing: "being removed", Replaced: "replaced, waits for its removal"}

// phaseMarks and phaseColors show the state of a phase.
var (
	phaseMarks = map[v1alpha1.PhaseState]string{
		v1alpha1.PhasePending: "○", v1alpha1.PhaseProgressing: "●", v1alpha1.PhaseBlocked: "✖", v1alpha1.PhaseComplete: "✔", v1alpha1.PhaseRemoving: "▼",
	}
	phaseColors = map[v1alpha1.PhaseState]string{
		v1alpha1.PhasePending: term.Faint, v1alpha1.PhaseProgressing: "34", v1alpha1.PhaseBlocked: "31", v1alpha1.PhaseComplete: "32", v1alpha1.PhaseRemoving: "33",
	}
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
	return out.String()
}

// width returns the number of characters of the line.
func (l Line) width() int { return utf8.RuneCountInString(l.Paint(false)) }

// wrap returns a text in lines of at most width characters; 0 is no limit. They break between words, and inside a word that is
// longer than a line.
func wrap(text string, width int) (lines []string) {
	if width <= 0 || utf8.RuneCountInString(text) <= width {
		return []string{text}
	}
	line := ""
	for _, word := range strings.Fields(text) {
		if line != "" && utf8.RuneCountInString(line)+1+utf8.RuneCountInString(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
		for runes := []rune(line); len(runes) > width; runes = []rune(line) {
			lines, line = append(lines, string(runes[:width])), string(runes[width:])
		}
	}
	return append(lines, line)
}

// text collects lines.
type text struct {
	now    time.Time
	layout Layout
	lines  []Line
}

// Text returns the report for a terminal: the state, the next steps, the versions, and then the rest.
func (r Report) Text(now time.Time, layout Layout, color bool) string {
	var out strings.Builder
	for _, line := range r.lines(now, layout) {
		out.WriteString(line.Paint(color) + "\n")
	}
	return out.String()
}

func (r Report) lines(now time.Time, layout Layout) []Line {
	w := &text{now: now, layout: layout}
	w.wrapped(Line{{stateColors[r.State], stateWords[r.State]}, {"", "  "}}, "  ", "", r.Summary)
	if r.Cluster != nil {
		w.wrapped(nil, "", term.Faint, strings.Join(nonEmpty(r.Cluster.Context, r.Cluster.Server), ", "))
	}
	if r.Installer.State == Stopped && !r.Installer.Renewed.IsZero() {
		w.wrapped(nil, "", term.Faint, "The report below is old: the last sign of life was "+age(r.Installer.Renewed, now)+" ago.")
	}
	w.steps(r.NextSteps, slices.ContainsFunc(r.Versions, Version.waits))
	for _, version := range r.Versions {
		w.version(version, r.LastRolloutSeconds)
	}
	var overrides []string
	for _, override := range r.Overrides {
		overrides = append(overrides, override.Name+" = "+string(override.Image))
	}
	w.list("Image overrides", overrides)
	w.list("Signatures", r.signatureLines(w.fold))
	w.list("Unmanaged CRDs", r.UnmanagedCRDs)
	w.list("Retained CRDs", r.RetainedCRDs)
	w.list("Reverted drift", driftLines(r.Drift, now))
	return w.lines
}

// narrow is the shortest width of a text after its indentation.
const narrow = 8

// wrapped adds a text of one color after a prefix; further lines begin with an indentation.
func (w *text) wrapped(prefix Line, indent, color, content string) {
	width := 0
	if w.layout.Width > 0 {
		width = max(w.layout.Width-max(prefix.width(), utf8.RuneCountInString(indent)), narrow)
	}
	for paragraph := range strings.Lines(content + "\n") {
		for _, line := range wrap(term.Printable(paragraph), width) {
			w.lines = append(w.lines, append(slices.Clone(prefix), Part{color, line}))
			prefix = Line{{"", indent}}
		}
	}
}

func (w *text) heading(title string) {
	w.lines = append(w.lines, nil, Line{{term.Bold, title}})
}

func (w *text) list(title string, items []string) {
	if len(items) == 0 {
		return
	}
	w.heading(title)
	for _, item := range items {
		w.wrapped(Line{{"", "  "}}, "    ", "", item)
	}
}

// shownDrift is the number of events about drift in the text.
const shownDrift = 5

func driftLines(drift []Reverted, now time.Time) []string {
	var lines []string
	for _, reverted := range drift[:min(len(drift), shownDrift)] {
		lines = append(lines, age(reverted.Time, now)+" ago: "+reverted.Message)
	}
	if more := len(drift) - shownDrift; more > 0 {
		lines = append(lines, term.Plural(more, "older event", "older events")+"; -o json lists all")
	}
	return lines
}

// age formats the time since a moment, such as "2m10s".
func age(since metav1.Time, now time.Time) string {
	return duration.HumanDuration(max(now.Sub(since.Time), 0))
}

// version writes a version: its components, its times, and its phases.
func (w *text) version(version Version, lastRollout int64) {
	title := roleWords[version.Role]
	if version.Role == Desired && !version.Started.IsZero() {
		title += " for " + age(version.Started, w.now)
		if lastRollout > 0 {
			title += "; the last rollout took " + duration.HumanDuration(time.Duration(lastRollout)*time.Second)
		}
	}
	if version.InstalledAs != "" {
		title += "  with the objects of " + version.InstalledAs
	}
	w.lines = append(w.lines, nil)
	w.wrapped(Line{{term.Bold, term.Printable(version.Name)}, {"", "  "}}, "  ", "", title)
	if len(version.Components) > 0 {
		w.wrapped(nil, "  ", term.Faint, w.fold(componentTexts(version.Components)))
	}
	w.phases(version)
}

// waits reports whether a phase names the objects that it waits for.
func (v Version) waits() bool {
	return slices.ContainsFunc(v.Phases, func(phase v1alpha1.Phase) bool { return len(phase.WaitingFor) > 0 })
}

// componentTexts returns the components with their versions and settings, and marks overridden images.
func componentTexts(components []v1alpha1.Component) []string {
	texts := make([]string, len(components))
	for i, component := range components {
		texts[i] = strings.TrimSpace(component.Name + " " + component.Version)
		if component.Overridden {
			texts[i] += " (overridden)"
		}
		if len(component.Settings) > 0 {
			texts[i] += " (" + strings.Join(component.Settings, ", ") + ")"
		}
	}
	return texts
}

// unlimited is the width of a list of components if lines have no limit.
const unlimited = 160

// fold lists components; a list that is longer than a line is folded into the first one and the number of the others.
func (w *text) fold(components []string) string {
	if list := all(components); w.layout.NoFold || utf8.RuneCountInString(list) <= cmp.Or(w.layout.Width, unlimited) {
		return list
	}
	return names.First(1, components)
}

// all lists the names of components.
func all(names []string) string { return strings.Join(names, ", ") }

// phases writes the phases of a version as a tree. Runs of complete and of pending phases are one line each if they are folded.
func (w *text) phases(version Version) {
	rows := runs(version.Phases, w.layout.NoFold)
	longest := 0
	for _, row := range rows {
		if len(row) == 1 {
			longest = max(longest, utf8.RuneCountInString(row[0].Name))
		}
	}
	for i, row := range rows {
		branch, below := "├── ", "│   "
		if i == len(rows)-1 {
			branch, below = "└── ", "    "
		}
		phase, state := row[0], row[0].State
		line := fmt.Sprintf("%-*s  %s  %s", longest, phase.Name, countText(phase, version.removing()), w.stateText(phase, version.removing()))
		if len(row) > 1 {
			line = folded(row, version.removing())
		}
		w.wrapped(Line{{"", branch}, {phaseColors[state], phaseMarks[state] + " "}}, below+"  ", phaseColors[state], line)
		for i, waiting := range phase.WaitingFor {
			twig, under := "├── ", "│   "
			if i == len(phase.WaitingFor)-1 {
				twig, under = "└── ", "    "
			}
			w.wrapped(Line{{"", below + twig}}, below+under, "", strings.Join(nonEmpty(waiting.Object, waiting.Message), ": ")+" ("+age(waiting.Since, w.now)+")")
		}
	}
}

// runs groups phases: a group of several phases is folded.
func runs(phases []v1alpha1.Phase, noFold bool) (groups [][]v1alpha1.Phase) {
	foldable := func(phase v1alpha1.Phase) bool {
		return !noFold && (phase.State == v1alpha1.PhaseComplete || phase.State == v1alpha1.PhasePending)
	}
	for i, phase := range phases {
		if i > 0 && foldable(phase) && phases[i-1].State == phase.State {
			groups[len(groups)-1] = append(groups[len(groups)-1], phase)
		} else {
			groups = append(groups, []v1alpha1.Phase{phase})
		}
	}
	return groups
}

// folded describes several phases of one state.
func folded(phases []v1alpha1.Phase, removing bool) string {
	sum, word := v1alpha1.Phase{}, strings.ToLower(string(phases[0].State))
	for _, phase := range phases {
		sum.Objects, sum.Ready = sum.Objects+phase.Objects, sum.Ready+phase.Ready
	}
	if removing {
		word = "wait for their removal"
	}
	return fmt.Sprintf("%d phases %s  %s", len(phases), word, countText(sum, removing))
}

func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// stateText formats the state of a phase, with its age while the state may still change.
func (w *text) stateText(phase v1alpha1.Phase, removing bool) string {
	switch phase.State {
	case v1alpha1.PhaseProgressing, v1alpha1.PhaseBlocked, v1alpha1.PhaseRemoving:
		return string(phase.State) + " for " + age(phase.Since, w.now)
	case v1alpha1.PhasePending:
		if removing {
			return "waits for its removal"
		}
	}
	return string(phase.State)
}

// removing reports whether the objects of the version are being deleted: its pending phases then wait for their removal.
func (v Version) removing() bool {
	return slices.ContainsFunc(v.Phases, isRemoved)
}

func isRemoved(phase v1alpha1.Phase) bool { return phase.State == v1alpha1.PhaseRemoving }

// countText formats the ready objects of a phase, such as "3/9", or "9 left" if its version is being removed.
func countText(phase v1alpha1.Phase, removing bool) string {
	if removing {
		return fmt.Sprintf("%d left", phase.Objects)
	}
	return fmt.Sprintf("%d/%d", phase.Ready, phase.Objects)
}

// steps writes the next steps. Steps with the same action are one. If phases show the objects that they wait for, the cause of a rollout in
// progress does not repeat them.
func (w *text) steps(steps []Step, waiting bool) {
	if len(steps) == 0 {
		return
	}
	w.heading("Next steps")
	for i, step := range steps {
		sameAction := func(other Step) bool { return other.Action == step.Action }
		if slices.ContainsFunc(steps[:i], sameAction) {
			continue
		}
		w.wrapped(Line{{"", "  "}}, "  ", "", step.Action)
		for _, same := range steps[i:] {
			if !sameAction(same) {
				continue
			}
			if same.Condition != "" {
				w.wrapped(Line{{"", "    "}}, "    ", term.Faint, fmt.Sprintf("%s is %s (%s) for %s", same.Condition, same.Status, same.Reason, age(same.Since, w.now)))
			}
			if same.Cause != "" && (!waiting || same.Reason != string(reason.RollingOut)) {
				w.wrapped(Line{{"", "    "}}, "    ", term.Faint, same.Cause)
			}
		}
	}
}

// signatureLines returns the verdicts with their components, one line for each verdict and scope, worst first.
func (r Report) signatureLines(list func(names []string) string) (lines []string) {
	for _, decision := range []v1alpha1.Verdict{v1alpha1.VerdictRejected, v1alpha1.VerdictUndecided, v1alpha1.VerdictAccepted, v1alpha1.VerdictNotEnforced} {
		var by []string
		components := map[string][]string{}
		for _, signature := range r.Signatures {
			if signature.Verdict == decision {
				text := verdict.Installed(signature).String()
				by = append(by, text)
				components[text] = append(components[text], r.componentsOf(signature.Image)...)
			}
		}
		slices.Sort(by)
		for _, text := range slices.Compact(by) {
			slices.Sort(components[text])
			lines = append(lines, text+": "+list(slices.Compact(components[text])))
		}
	}
	return lines
}

// componentsOf returns the names of the components with an image, with their versions.
func (r Report) componentsOf(image v1alpha1.ImageReference) (names []string) {
	for _, version := range r.Versions {
		for _, component := range version.Components {
			if component.Image == image {
				names = append(names, strings.TrimSpace(component.Name+" "+component.Version))
			}
		}
	}
	return names
}
