// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// view is the report on a terminal, as a model of bubbletea: the state, the cluster and the next steps stay at the top, the rest scrolls.
type view struct {
	color, noFold bool
	// keys is true if the terminal sends keys.
	keys bool
	now  func() time.Time

	width, height int
	report        Report
	problem       string
	// head and foot are the lines around the body.
	head, foot []string
	body       viewport.Model
	// end is the reason for which the user ended the view.
	end error
}

// The messages of a view are reports, problems, and messages of the terminal.
type (
	problem string
	// second passes: durations are shown.
	second struct{}
)

// everySecond sends the next second.
func everySecond() tea.Cmd {
	return tea.Every(time.Second, func(time.Time) tea.Msg { return second{} })
}

// Init implements tea.Model.
func (v view) Init() tea.Cmd { return everySecond() }

// Update implements tea.Model.
func (v view) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	var next tea.Cmd
	switch message := message.(type) {
	case Report:
		v.report, v.problem = message, ""
	case problem:
		v.problem = v.now().Format(time.TimeOnly) + " " + term.Printable(string(message)) + "; retrying"
	case second:
		next = everySecond()
	case tea.WindowSizeMsg:
		v.width, v.height = message.Width, message.Height
	case tea.KeyPressMsg:
		return v.pressed(message)
	default:
		return v, nil
	}
	return v.arranged(), next
}

// pressed handles a key. The terminal sends no signals while it sends keys.
func (v view) pressed(key tea.KeyPressMsg) (tea.Model, tea.Cmd) {
	var next tea.Cmd
	switch key.String() {
	case "q":
		v.end, next = ErrQuit, tea.Quit
	case "ctrl+c":
		v.end, next = ErrInterrupted, tea.Quit
	case "ctrl+z":
		next = tea.Suspend
	case "g", "home":
		v.body.GotoTop()
	case "G", "end":
		v.body.GotoBottom()
	default:
		v.body, next = v.body.Update(key)
	}
	return v.arranged(), next
}

// arranged distributes the lines of the report over the terminal. The head has at most half of it: the end of a longer one scrolls with the body.
func (v view) arranged() view {
	if v.width == 0 {
		return v
	}
	now, layout := v.now(), Layout{Width: v.width, NoFold: v.noFold}
	head := v.report.head(now, layout)
	pinned := min(len(head), v.height/2)
	lines := slices.Concat(head[pinned:], v.report.body(now, layout))
	notes := v.notes()
	v.head, v.foot = v.painted(head[:pinned]), v.painted(notes)
	v.body.SetWidth(v.width)
	v.body.SetHeight(max(v.height-pinned-len(notes)-1, 0))
	v.body.SetContentLines(v.painted(lines))
	v.foot = append(v.foot, v.painted([]Line{{{term.Faint, v.hint()}}})...)
	return v
}

// maxNotes is the largest number of lines of a problem.
const maxNotes = 3

// notes are the lines of the problem.
func (v view) notes() (lines []Line) {
	if v.problem == "" {
		return nil
	}
	all := wrap(v.problem, v.width)
	for _, line := range all[:min(len(all), maxNotes)] {
		lines = append(lines, Line{{Text: line}})
	}
	return lines
}

// hint tells which lines of the body are shown, and the keys.
func (v view) hint() string {
	var parts []string
	total, first := v.body.TotalLineCount(), v.body.YOffset()
	scrolls := total > v.body.Height()
	if scrolls {
		parts = append(parts, fmt.Sprintf("%d-%d of %d", first+1, first+v.body.Height(), total))
	}
	switch {
	case v.keys && scrolls:
		parts = append(parts, "↑↓ PgUp PgDn g G", "q quits")
	case v.keys:
		parts = append(parts, "q quits")
	case scrolls:
		parts = append(parts, "enlarge the terminal")
	}
	return strings.Join(parts, "  ")
}

func (v view) painted(lines []Line) []string {
	painted := make([]string, len(lines))
	for i, line := range lines {
		painted[i] = line.Paint(v.color)
	}
	return painted
}

// View implements tea.Model.
func (v view) View() tea.View {
	lines := append(append(slices.Clone(v.head), v.body.View()), v.foot...)
	screen := tea.NewView(strings.Join(lines, "\n"))
	screen.AltScreen = true
	return screen
}
