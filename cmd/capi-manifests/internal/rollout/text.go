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
	"github.com/capi-installer/capi-installer/install/reason"
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
	stateWords  = map[State]string{AtRest: "AT REST", RollingOut: "ROLLING OUT", Blocked: "BLOCKED", Paused: "PAUSED"}
	stateColors = map[State]string{AtRest: "1;32", RollingOut: "1;34", Blocked: "1;31", Paused: "1;33"}
)

// roleWords are the roles of versions for people.
var roleWords = map[Role]string{Installed: "installed", Desired: "being installed", Removing: "being removed", Replaced: "replaced, waits for its removal"}

// text collects lines.
type text struct {
	now    time.Time
	layout Layout
	lines  []Line
	// waiting is true if a phase shows the objects that it waits for.
	waiting bool
}

// Text returns the report for a terminal: the state, the next steps, the versions, and then the rest.
func (r Report) Text(now time.Time, layout Layout) []Line {
	w := &text{now: now, layout: layout, waiting: slices.ContainsFunc(r.Versions, Version.waits)}
	w.wrapped(Line{{stateColors[r.State], stateWords[r.State]}, {"", "  "}}, "  ", "", r.Summary)
	if r.Cluster != nil {
		w.wrapped(nil, "", term.Faint, strings.Join(nonEmpty(r.Cluster.Context, r.Cluster.Server), ", "))
	}
	if r.Installer.State == Stopped && !r.Installer.Renewed.IsZero() {
		w.wrapped(nil, "", term.Faint, "The report below is old: the last sign of life was "+w.age(r.Installer.Renewed)+" ago.")
	}
	w.steps(r.NextSteps)
	for _, version := range r.Versions {
		w.version(version, r.LastRolloutSeconds)
	}
	w.list("Image overrides", overrideLines(r.Overrides))
	w.list("Signatures", r.signatureLines(w.fold))
	w.list("Unmanaged CRDs", r.UnmanagedCRDs)
	w.list("Retained CRDs", r.RetainedCRDs)
	w.list("Reverted drift", w.driftLines(r.Drift))
	return w.lines
}

// add adds a line and makes its text printable.
func (w *text) add(parts ...Part) {
	for i := range parts {
		parts[i].Text = term.Printable(parts[i].Text)
	}
	w.lines = append(w.lines, parts)
}

// wrapped adds a text of one color after a prefix; further lines begin with an indentation.
func (w *text) wrapped(prefix Line, indent, color, content string) {
	width := 0
	if w.layout.Width > 0 {
		width = max(w.layout.Width-max(prefix.width(), Line{{"", indent}}.width()), narrowName)
	}
	for paragraph := range strings.Lines(content + "\n") {
		for _, line := range wrap(term.Printable(paragraph), width) {
			w.add(append(slices.Clone(prefix), Part{color, line})...)
			prefix = Line{{"", indent}}
		}
	}
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
		w.wrapped(Line{{"", "  "}}, "    ", "", item)
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

// version writes a version: its components, its times, and the tree of its phases.
func (w *text) version(version Version, lastRollout int64) {
	w.add()
	title := roleWords[version.Role]
	if version.Role == Desired && !version.Started.IsZero() {
		title += " for " + w.age(version.Started)
		if lastRollout > 0 {
			title += "; the last rollout took " + duration.HumanDuration(time.Duration(lastRollout)*time.Second)
		}
	}
	if version.InstalledAs != "" {
		title += "  with the objects of " + version.InstalledAs
	}
	w.wrapped(Line{{term.Bold, version.Name}, {"", "  "}}, "  ", "", title)
	if components := w.componentsText(version.Components); components != "" {
		w.wrapped(nil, "  ", term.Faint, components)
	}
	if version.complete() && !w.layout.NoFold {
		w.add(Part{"", "└── "}, Part{phaseColors[v1alpha1.PhaseComplete], phaseMarks[v1alpha1.PhaseComplete] + " all phases are complete"}, Part{"", fmt.Sprintf("  %d/%d", version.Ready, version.Objects)})
		return
	}
	tree{w, version.removing()}.phases(version.Phases)
}

// waits reports whether a phase names the objects that it waits for.
func (v Version) waits() bool {
	return slices.ContainsFunc(v.Phases, func(phase v1alpha1.Phase) bool { return len(phase.WaitingFor) > 0 })
}

// complete reports whether a version has phases and all of them are complete.
func (v Version) complete() bool {
	incomplete := func(phase v1alpha1.Phase) bool { return phase.State != v1alpha1.PhaseComplete }
	return len(v.Phases) > 0 && !slices.ContainsFunc(v.Phases, incomplete)
}

// unlimited is the width of a folded list of components if lines have no limit.
const unlimited = 160

// componentsText lists components with their versions and settings, and marks overridden images.
func (w *text) componentsText(components []v1alpha1.Component) string {
	names := make([]string, len(components))
	for i, component := range components {
		names[i] = strings.TrimSpace(component.Name + " " + component.Version)
		if component.Overridden {
			names[i] += " (overridden)"
		}
		if len(component.Settings) > 0 {
			names[i] += " (" + strings.Join(component.Settings, ", ") + ")"
		}
	}
	return w.fold(names)
}

// fold lists the names of components. Folded, they are one line: the number of the others replaces those that do not fit.
func (w *text) fold(names []string) string {
	all, width := strings.Join(names, ", "), cmp.Or(w.layout.Width, unlimited)
	if w.layout.NoFold || utf8.RuneCountInString(all) <= width {
		return all
	}
	for shown := len(names) - 1; shown > 0; shown-- {
		if line := fmt.Sprintf("%s, and %d more", strings.Join(names[:shown], ", "), len(names)-shown); utf8.RuneCountInString(line) <= width {
			return line
		}
	}
	return term.Plural(len(names), "component", "components")
}

// steps writes the next steps. Steps with the same action are one.
func (w *text) steps(steps []Step) {
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
			if sameAction(same) {
				w.cause(same)
			}
		}
	}
}

// cause writes the condition and the cause of a step.
func (w *text) cause(step Step) {
	if step.Condition != "" {
		w.wrapped(Line{{"", "    "}}, "    ", term.Faint, fmt.Sprintf("%s is %s (%s) for %s", step.Condition, step.Status, step.Reason, w.age(step.Since)))
	}
	if step.Cause != "" && (!w.waiting || step.Reason != string(reason.RollingOut)) {
		w.wrapped(Line{{"", "    "}}, "    ", term.Faint, step.Cause)
	}
}
