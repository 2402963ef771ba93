// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// Display shows the reports of a watch.
type Display struct {
	// Show shows a report; it may equal the previous one.
	Show func(Report) error
	// Problem shows an error that is retried.
	Problem func(error)
	// Close ends the display; the last report stays visible.
	Close func()
}

// logPause is the shortest time between two lines of a log about a rollout in progress.
const logPause = 10 * time.Second

// NewLog returns a display for a pipe or a log: it writes a line with the time for each new fact, while the rollout is in progress at most
// every ten seconds. problem writes the errors.
func NewLog(out io.Writer, now func() time.Time, problem func(error)) Display {
	var last Report
	var at time.Time
	written := ""
	show := func(report Report) error {
		if report.State == RollingOut && now().Sub(at) < logPause {
			return nil
		}
		for _, fact := range report.Changes(last) {
			if _, err := fmt.Fprintln(out, now().UTC().Format(time.RFC3339), fact); err != nil {
				return err
			}
		}
		last, at = report, now()
		return nil
	}
	once := func(err error) {
		if text := err.Error(); text != written {
			written = text
			problem(fmt.Errorf("%w; retrying", err))
		}
	}
	return Display{Show: show, Problem: once, Close: func() {}}
}

// The codes of a terminal that a screen uses; see ECMA-48 and ctlseqs(ms). The codes of a frame leave no state behind.
const (
	enterScreen = "\x1b[?1049h" // the alternate screen
	leaveScreen = "\x1b[?1049l"
	startFrame  = "\x1b[?7l\x1b[H" // long lines are cut
	endLine     = "\x1b[K"
	endFrame    = "\x1b[J\x1b[?7h"
)

// NewScreen returns a display that redraws each report, and errors below it, on the alternate screen of a terminal, in its size. Close
// leaves the last report on the normal screen.
func NewScreen(out io.Writer, color, noFold bool) Display {
	var last Report
	begin := enterScreen
	draw := func(problem string) error {
		width, height := term.Size(out)
		var frame []string
		for _, line := range last.frame(time.Now(), Layout{Width: width, NoFold: noFold}, height, problem) {
			frame = append(frame, line.Paint(color)+endLine)
		}
		_, err := io.WriteString(out, begin+startFrame+strings.Join(frame, "\r\n")+endFrame)
		begin = ""
		return err
	}
	return Display{
		Show:    func(report Report) error { last = report; return draw("") },
		Problem: func(err error) { _ = draw(fmt.Sprintf("%s %v; retrying", time.Now().Format(time.TimeOnly), err)) },
		Close: func() {
			if begin == "" {
				width, _ := term.Size(out)
				fmt.Fprint(out, leaveScreen, last.Text(time.Now(), Layout{Width: width, NoFold: noFold}, color))
			}
		},
	}
}

// maxNotes is the largest number of lines of a problem.
const maxNotes = 3

// frame returns the lines of a report for a terminal with a height: lines that do not fit are counted in the last line, above a problem.
func (r Report) frame(now time.Time, layout Layout, height int, problem string) []Line {
	lines := r.lines(now, layout)
	var notes []Line
	if problem != "" {
		for _, note := range wrap(term.Printable(problem), layout.Width) {
			notes = append(notes, Line{{Text: note}})
		}
		notes = notes[:min(len(notes), maxNotes)]
	}
	if room := max(height-len(notes), 1); len(lines) > room {
		hidden := len(lines) - room + 1
		lines = append(lines[:room-1:room-1], Line{{term.Faint, term.Plural(hidden, "more line", "more lines") + ": enlarge the terminal"}})
	}
	return append(lines, notes...)
}

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
