// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"fmt"
	"time"

	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// screen shows a view on the alternate screen of a terminal, from the first report until Close; this leaves the last report on the normal screen.
type screen struct {
	terminal Terminal
	now      func() time.Time
	program  *tea.Program
	last     Report
	// err is the reason for which the view ended by itself; it is valid once stopped is closed. stopped is nil before the first report.
	err     error
	stopped chan struct{}
}

// newScreen reads keys only from a terminal: other input is not meant for the view.
func newScreen(terminal Terminal, now func() time.Time) *screen {
	first := view{color: terminal.Color, noFold: terminal.NoFold, keys: term.IsTerminal(terminal.In), now: now, body: viewport.New()}
	in := terminal.In
	if !first.keys {
		in = nil
	}
	// The lines have their colors already, and main handles signals.
	program := tea.NewProgram(first, tea.WithInput(in), tea.WithOutput(terminal.Out), tea.WithoutSignalHandler(), tea.WithColorProfile(colorprofile.ANSI))
	return &screen{terminal: terminal, now: now, program: program}
}

// Show implements Display.
func (s *screen) Show(report Report) error {
	if s.stopped == nil {
		s.stopped = make(chan struct{})
		go s.run()
	}
	s.last = report
	s.program.Send(report)
	select {
	case <-s.stopped:
		return s.err
	default:
		return nil
	}
}

func (s *screen) run() {
	defer close(s.stopped)
	model, err := s.program.Run()
	if err != nil {
		s.err = fmt.Errorf("drawing on the terminal: %w", err)
	} else {
		s.err = model.(view).end
	}
	if s.err != nil {
		s.terminal.Ended(s.err)
	}
}

// Problem implements Display. The next report removes it.
func (s *screen) Problem(err error) { s.program.Send(problem(err.Error())) }

// Close implements Display.
func (s *screen) Close() {
	if s.stopped == nil {
		return
	}
	s.program.Quit()
	<-s.stopped
	for _, line := range s.last.Text(s.now(), Layout{Width: term.Width(s.terminal.Out), NoFold: s.terminal.NoFold}) {
		fmt.Fprintln(s.terminal.Out, line.Paint(s.terminal.Color))
	}
}
