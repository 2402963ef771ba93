// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/vbauerster/mpb/v8/cwriter"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// screen redraws the report on a terminal, at each change and every second, because it shows durations.
type screen struct {
	ticking
	color, noFold bool

	now func() time.Time
	// size returns the columns and lines of the terminal.
	size func() (width, height int, err error)

	mu      sync.Mutex
	writer  *cwriter.Writer
	last    *Report
	problem string
}

func newScreen(out io.Writer, color, noFold bool) *screen {
	writer := cwriter.New(out)
	s := &screen{color: color, noFold: noFold, now: time.Now, size: writer.GetTermSize, writer: writer}
	s.start(s.tick)
	return s
}

// tick redraws the report.
func (s *screen) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	_ = s.draw() // Show returns the error if the terminal is closed
}

// Show implements Display.
func (s *screen) Show(report Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.problem = &report, ""
	return s.draw()
}

// Problem implements Display. The next change removes the line.
func (s *screen) Problem(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem = s.now().Format(time.TimeOnly) + " " + term.Printable(err.Error()) + "; retrying"
	_ = s.draw() // as in tick
}

// draw replaces the previous report.
func (s *screen) draw() error {
	if s.last == nil {
		return nil
	}
	width, height, err := s.size()
	if err != nil || width < 2 || height < 2 {
		width, height = 0, 0
	}
	lines := s.last.Text(s.now(), Layout{Width: max(width-1, 0), NoFold: s.noFold})
	if s.problem != "" {
		lines = append(lines, Line{}, Line{{Text: s.problem}})
	}
	lines = fit(lines, width, height)
	for _, line := range lines {
		s.writer.WriteString(line.Paint(s.color) + "\n")
	}
	return s.writer.Flush(len(lines))
}

// fit cuts lines to the size of the terminal, because a cursor cannot move to lines
// that have scrolled away.
func fit(lines []Line, width, height int) []Line {
	if height == 0 {
		return lines
	}
	if hidden := len(lines) - (height - 1); hidden > 0 {
		rest := fmt.Sprintf("… %s; enlarge the terminal", term.Plural(hidden+1, "more line", "more lines"))
		lines = append(lines[:height-2:height-2], Line{{Code: term.Faint, Text: rest}})
	}
	for i := range lines {
		lines[i] = lines[i].Cut(width - 1)
	}
	return lines
}
