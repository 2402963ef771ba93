// SPDX-License-Identifier: Apache-2.0

package command

import (
	"bytes"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"github.com/vbauerster/mpb/v8/cwriter"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/rollout"
	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// display shows the reports of a watch.
type display interface {
	// Show shows a report, which may equal the previous one.
	Show(report rollout.Report) error
	// Problem shows an error that is retried. It may be called concurrently.
	Problem(err error)
	// Close ends the display; the last report stays visible.
	Close()
}

// display returns the display that the flags and the kind of stdout select.
func (o *statusOptions) display(cmd *cobra.Command) display {
	out, problems := cmd.OutOrStdout(), &problemLog{out: cmd.ErrOrStderr()}
	switch {
	case !o.watch:
		return &silent{problems}
	case o.format != rollout.Text:
		return &documents{problemLog: problems, out: out, format: o.format}
	case term.IsTerminal(out):
		return newScreen(out, o.color.Enabled(out))
	default:
		return &factLog{problemLog: problems, out: out, now: time.Now}
	}
}

// problemLog writes each problem once in a row.
type problemLog struct {
	out  io.Writer
	mu   sync.Mutex
	last string
}

// Problem implements display.
func (p *problemLog) Problem(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err.Error() != p.last {
		p.last = err.Error()
		report(p.out, fmt.Errorf("%w; retrying", err))
	}
}

// Close implements display.
func (p *problemLog) Close() {}

// silent shows only problems, for --wait.
type silent struct{ *problemLog }

// Show implements display.
func (*silent) Show(rollout.Report) error { return nil }

// documents writes a document for each different report.
type documents struct {
	*problemLog
	out    io.Writer
	format rollout.Format
	color  bool
	last   rollout.Report
}

// Show implements display.
func (d *documents) Show(report rollout.Report) error {
	if reflect.DeepEqual(report, d.last) {
		return nil
	}
	d.last = report
	var text bytes.Buffer
	if err := report.Write(&text, d.format, time.Now(), d.color); err != nil {
		return err
	}
	_, err := d.out.Write(text.Bytes())
	return err
}

// factLog writes a line with the time for each new fact, for a pipe or a log.
type factLog struct {
	*problemLog
	out  io.Writer
	now  func() time.Time
	last rollout.Report
}

// Show implements display.
func (f *factLog) Show(report rollout.Report) error {
	for _, fact := range report.Changes(f.last) {
		if _, err := fmt.Fprintln(f.out, f.now().UTC().Format(time.RFC3339), fact); err != nil {
			return err
		}
	}
	f.last = report
	return nil
}

// screen redraws the report on a terminal, at each change and every second, because it shows durations.
type screen struct {
	color bool
	now   func() time.Time
	// size returns the columns and lines of the terminal.
	size func() (width, height int, err error)

	mu      sync.Mutex
	writer  *cwriter.Writer
	last    *rollout.Report
	problem string
	stop    chan struct{}
	stopped sync.WaitGroup
}

func newScreen(out io.Writer, color bool) *screen {
	writer := cwriter.New(out)
	s := &screen{color: color, now: time.Now, size: writer.GetTermSize, writer: writer, stop: make(chan struct{})}
	s.stopped.Go(s.tick)
	return s
}

// tick redraws the report every second until Close.
func (s *screen) tick() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-ticker.C:
			s.mu.Lock()
			_ = s.draw() // Show returns the error of a terminal that was closed
			s.mu.Unlock()
		}
	}
}

// Show implements display.
func (s *screen) Show(report rollout.Report) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.last, s.problem = &report, ""
	return s.draw()
}

// Problem implements display. The next change removes the line.
func (s *screen) Problem(err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.problem = s.now().Format(time.TimeOnly) + " " + term.Printable(err.Error()) + "; retrying"
	_ = s.draw() // as in tick
}

// Close implements display.
func (s *screen) Close() {
	close(s.stop)
	s.stopped.Wait()
}

// draw replaces the previous report.
func (s *screen) draw() error {
	if s.last == nil {
		return nil
	}
	lines := s.last.Text(s.now())
	if s.problem != "" {
		lines = append(lines, rollout.Line{}, rollout.Line{{Text: s.problem}})
	}
	lines = s.fit(lines)
	for _, line := range lines {
		s.writer.WriteString(line.Paint(s.color) + "\n")
	}
	return s.writer.Flush(len(lines))
}

// fit cuts lines to the size of the terminal: a cursor cannot move to lines that have scrolled away.
func (s *screen) fit(lines []rollout.Line) []rollout.Line {
	width, height, err := s.size()
	if err != nil || width < 1 || height < 2 {
		return lines
	}
	if hidden := len(lines) - (height - 1); hidden > 0 {
		rest := fmt.Sprintf("… %s; enlarge the terminal", term.Plural(hidden+1, "more line", "more lines"))
		lines = append(lines[:height-2:height-2], rollout.Line{{Code: term.Faint, Text: rest}})
	}
	for i := range lines {
		lines[i] = lines[i].Cut(width - 1)
	}
	return lines
}
