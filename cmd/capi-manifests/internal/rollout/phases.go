// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/capi-installer/capi-installer/api/v1alpha1"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
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

// The widths of the columns of a phase, in characters.
const (
	maxBar = 20
	minBar = 5
	// narrowName is the shortest width of a phase's name in characters; names are cut last of all.
	narrowName = 8
)

// columns are the widths of the columns of a list of phases. A bar of width 0 is omitted.
type columns struct {
	name, bar, count int
	// words is true if the state of each phase is written in a word.
	words bool
}

// tree writes the phases of a version.
type tree struct {
	*text
	// removing is true for a version that is being removed.
	removing bool
}

// phases writes the phases of a version as a tree. Runs of complete and of pending phases are one line each if they are folded.
func (w tree) phases(phases []v1alpha1.Phase) {
	rows := runs(phases, w.layout.NoFold)
	widths := w.columnsFor(rows)
	for i, row := range rows {
		branch, below := "├── ", "│   "
		if i == len(rows)-1 {
			branch, below = "└── ", "    "
		}
		if len(row) > 1 {
			w.folded(row, branch)
		} else {
			w.phase(row[0], widths, branch, below)
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

// folded writes several phases of one state as a line.
func (w tree) folded(phases []v1alpha1.Phase, branch string) {
	state, sum := phases[0].State, v1alpha1.Phase{}
	for _, phase := range phases {
		sum.Objects, sum.Ready = sum.Objects+phase.Objects, sum.Ready+phase.Ready
	}
	word := strings.ToLower(string(state))
	if w.removing {
		word = "wait for their removal"
	}
	w.add(Part{"", branch}, Part{phaseColors[state], fmt.Sprintf("%s %d phases %s", phaseMarks[state], len(phases), word)}, Part{"", "  " + countText(sum, w.removing)})
}

// columnsFor returns the widths for the phases that are not folded. If the width is small, the bars shrink first, then the words
// for states go, and then the names are cut. The counts are always complete.
func (w tree) columnsFor(rows [][]v1alpha1.Phase) columns {
	widths, state := columns{bar: maxBar, words: true}, 0
	for _, row := range rows {
		if len(row) == 1 {
			widths.name = max(widths.name, utf8.RuneCountInString(row[0].Name))
			widths.count, state = max(widths.count, utf8.RuneCountInString(countText(row[0], w.removing))), max(state, utf8.RuneCountInString(w.stateText(row[0], true)))
		}
	}
	if w.layout.Width == 0 {
		return widths
	}
	fixed := 6 + 2 + widths.count // the branch with the mark, and the gap before the count
	left := w.layout.Width - fixed - widths.name - 2 - state
	if widths.bar = min(left-2, maxBar); widths.bar >= minBar {
		return widths
	}
	widths.bar, widths.words = 0, left >= 0
	if !widths.words {
		const age = 2 + len("59m59s")
		widths.name = min(widths.name, max(w.layout.Width-fixed-age, narrowName))
	}
	return widths
}

func (w tree) phase(phase v1alpha1.Phase, widths columns, branch, below string) {
	color, name := phaseColors[phase.State], []rune(phase.Name)
	if len(name) > widths.name {
		name = append(name[:widths.name-1:widths.name-1], '…')
	}
	parts := []Part{{"", branch}, {color, phaseMarks[phase.State] + " " + string(name) + strings.Repeat(" ", widths.name-len(name))}}
	if widths.bar > 0 {
		parts = append(parts, Part{color, "  " + bar(phase, widths.bar)})
	}
	parts = append(parts, Part{"", fmt.Sprintf("  %-*s", widths.count, countText(phase, w.removing))})
	if state := w.stateText(phase, widths.words); state != "" {
		parts = append(parts, Part{color, "  " + state})
	}
	w.add(parts...)
	for i, waiting := range phase.WaitingFor {
		twig, under := "├── ", "│   "
		if i == len(phase.WaitingFor)-1 {
			twig, under = "└── ", "    "
		}
		w.wrapped(Line{{"", below + twig}}, below+under, "", strings.Join(nonEmpty(waiting.Object, waiting.Message), ": ")+" ("+w.age(waiting.Since)+")")
	}
}

func nonEmpty(texts ...string) []string {
	return slices.DeleteFunc(texts, func(text string) bool { return text == "" })
}

// stateText formats the state of a phase, with its age while the state may still
// change; without words, only the age.
func (w tree) stateText(phase v1alpha1.Phase, words bool) string {
	changing := phase.State == v1alpha1.PhaseProgressing || phase.State == v1alpha1.PhaseBlocked || phase.State == v1alpha1.PhaseRemoving
	switch {
	case w.removing && phase.State == v1alpha1.PhasePending && words:
		return "waits for its removal"
	case changing && words:
		return string(phase.State) + " for " + w.age(phase.Since)
	case changing:
		return w.age(phase.Since)
	case words:
		return string(phase.State)
	default:
		return ""
	}
}

// removing reports whether the objects of the version are being deleted: its pending phases then wait for their removal.
func (v Version) removing() bool {
	return slices.ContainsFunc(v.Phases, isRemoved)
}

func isRemoved(phase v1alpha1.Phase) bool { return phase.State == v1alpha1.PhaseRemoving }

// bar formats the progress bar of a phase with a number of characters.
func bar(phase v1alpha1.Phase, width int) string {
	full := width * percent(phase) / 100
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
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

// countText formats the ready objects of a phase, such as "3/9", or "9 left" if its version is being removed.
func countText(phase v1alpha1.Phase, removing bool) string {
	if removing {
		return fmt.Sprintf("%d left", phase.Objects)
	}
	return fmt.Sprintf("%d/%d", phase.Ready, phase.Objects)
}
