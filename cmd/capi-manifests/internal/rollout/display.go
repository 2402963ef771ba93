// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// Display shows the reports of a watch.
type Display struct {
	now func() time.Time
	// draw shows the last report; fresh is true if it was not shown before. write shows an error that is retried. Both are called with the lock.
	draw  func(fresh bool) error
	write func(error)
	end   func()

	mu     sync.Mutex
	report Report
	// stop ends the goroutine that draws each second; nil if there is none.
	stop    chan struct{}
	stopped sync.WaitGroup
}

// Terminal is the output of a command, and the form of the text.
type Terminal struct {
	Out           io.Writer
	Color, NoFold bool
}

// NewDisplay returns the display for a format. Text on a terminal is redrawn in place; otherwise it has a line for each new fact.
// problem writes the errors, except on a terminal: the screen shows them.
func NewDisplay(to Terminal, format Format, problem func(error)) *Display {
	d := &Display{now: time.Now, write: once(problem), end: func() {}}
	switch {
	case format != Text:
		d.draw = d.documents(to.Out, format)
	case term.Redraws(to.Out):
		d.screen(to)
	default:
		d.draw = d.facts(to.Out)
	}
	return d
}

// NewPulse returns the display of a command that only waits: while the rollout is in progress, it writes the summary at once, and then when it
// has changed, at most every ten seconds, and every minute otherwise.
func NewPulse(out io.Writer, problem func(error)) *Display {
	d := &Display{now: time.Now, write: once(problem), end: func() {}}
	d.draw = d.pulse(out)
	d.eachSecond()
	return d
}

// Show shows a report; it may equal the previous one.
func (d *Display) Show(report Report) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.report = report
	return d.draw(true)
}

// Problem shows an error that is retried. It may be called concurrently.
func (d *Display) Problem(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.write(fmt.Errorf("%w; retrying", err))
}

// once writes an error only if it differs from the previous one.
func once(write func(error)) func(error) {
	last := ""
	return func(err error) {
		if err.Error() != last {
			last = err.Error()
			write(err)
		}
	}
}

// Close ends the display; the last report stays visible.
func (d *Display) Close() {
	if d.stop != nil {
		close(d.stop)
		d.stopped.Wait()
	}
	d.end()
}

// eachSecond draws the last report each second until Close. The next report returns an error of the output.
func (d *Display) eachSecond() {
	d.stop = make(chan struct{})
	d.stopped.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-d.stop:
				return
			case <-ticker.C:
				d.mu.Lock()
				_ = d.draw(false)
				d.mu.Unlock()
			}
		}
	})
}

// pulse writes the summary now and then.
func (d *Display) pulse(out io.Writer) func(bool) error {
	written, at := "", time.Time{}
	return func(bool) error {
		now, summary := d.now(), d.report.Summary
		since := now.Sub(at)
		if d.report.State != RollingOut || since < 10*time.Second || summary == written && since < time.Minute {
			return nil
		}
		written, at = summary, now
		_, err := fmt.Fprintln(out, now.UTC().Format(time.RFC3339), term.Printable(summary))
		return err
	}
}

// documents writes a document for each report that differs from the previous one.
func (d *Display) documents(out io.Writer, format Format) func(bool) error {
	var last Report
	return func(bool) error {
		if reflect.DeepEqual(d.report, last) {
			return nil
		}
		last = d.report
		var text bytes.Buffer
		if err := last.Write(&text, format, d.now(), false, Layout{}); err != nil {
			return err
		}
		_, err := out.Write(text.Bytes())
		return err
	}
}

// facts writes a line with the time for each new fact, for a pipe or a log.
func (d *Display) facts(out io.Writer) func(bool) error {
	var last Report
	return func(bool) error {
		for _, fact := range d.report.Changes(last) {
			if _, err := fmt.Fprintln(out, d.now().UTC().Format(time.RFC3339), fact); err != nil {
				return err
			}
		}
		last = d.report
		return nil
	}
}

// The codes of a terminal that a screen uses; see ECMA-48 and ctlseqs(ms). The codes of a frame leave no state behind.
const (
	enterScreen = "\x1b[?1049h" // the alternate screen
	leaveScreen = "\x1b[?1049l"
	startFrame  = "\x1b[?7l\x1b[H" // long lines are cut
	endLine     = "\x1b[K"
	endFrame    = "\x1b[J\x1b[?7h"
)

// screen redraws the report on the alternate screen of a terminal, in its size, after each report and each second, from the first report until
// Close; this leaves the last report on the normal screen.
func (d *Display) screen(to Terminal) {
	problem, drawn := "", false
	d.draw = func(fresh bool) error {
		if fresh {
			problem = ""
		}
		if !fresh && !drawn {
			return nil
		}
		width, height := term.Size(to.Out)
		var out strings.Builder
		if !drawn {
			out.WriteString(enterScreen)
			drawn = true
		}
		out.WriteString(startFrame)
		for i, line := range d.report.frame(d.now(), Layout{Width: width, NoFold: to.NoFold}, height, problem) {
			if i > 0 {
				out.WriteString("\r\n")
			}
			out.WriteString(line.Paint(to.Color) + endLine)
		}
		_, err := io.WriteString(to.Out, out.String()+endFrame)
		return err
	}
	d.write = func(err error) {
		problem = d.now().Format(time.TimeOnly) + " " + term.Printable(err.Error())
		_ = d.draw(false)
	}
	d.end = func() {
		if !drawn {
			return
		}
		width, _ := term.Size(to.Out)
		fmt.Fprint(to.Out, leaveScreen)
		for _, line := range d.report.Text(d.now(), Layout{Width: width, NoFold: to.NoFold}) {
			fmt.Fprintln(to.Out, line.Paint(to.Color))
		}
	}
	d.eachSecond()
}

// maxNotes is the largest number of lines of a problem.
const maxNotes = 3

// frame returns the lines of a report for a terminal with a height: lines that do not fit are counted in the last line, above a problem.
func (r Report) frame(now time.Time, layout Layout, height int, problem string) []Line {
	lines := r.Text(now, layout)
	var notes []Line
	if problem != "" {
		for _, note := range wrap(problem, layout.Width) {
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

// StateError reports a rollout that is not at rest, for the exit code.
type StateError struct {
	State State
	// Message is empty if the report explains the state.
	Message string
}

func (e *StateError) Error() string { return e.Message }
