// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"reflect"
	"sync"
	"time"

	"github.com/capi-installer/capi-installer/cmd/capi-manifests/internal/term"
)

// Display shows the reports of a watch.
type Display interface {
	// Show shows a report; it may equal the previous one.
	Show(report Report) error
	// Problem shows an error that is retried. It may be called concurrently.
	Problem(err error)
	// Close ends the display; the last report stays visible.
	Close()
}

// Terminal is the output of a command, its input for keys, and the form of the text.
type Terminal struct {
	Out           io.Writer
	In            io.Reader
	Color, NoFold bool
	// Ended is called once the user ends the display with ErrQuit or ErrInterrupted, or the terminal fails.
	Ended func(error)
}

// NewDisplay returns the display for a format. Text on a terminal scrolls and is redrawn in
// place; otherwise it has a line for each new fact. problem writes the errors,
// except on a terminal: the screen shows them.
func NewDisplay(to Terminal, format Format, problem func(error)) Display {
	problems := &problemLog{write: problem}
	switch {
	case format != Text:
		return &documents{problemLog: problems, out: to.Out, format: format}
	case term.Redraws(to.Out):
		return newScreen(to, time.Now)
	default:
		return &factLog{problemLog: problems, out: to.Out, now: time.Now}
	}
}

// NewPulse returns the display of a command that only waits: while the rollout is in progress, it writes the summary at once, and then when it
// has changed, at most every ten seconds, and every minute otherwise.
func NewPulse(out io.Writer, problem func(error)) Display {
	p := &pulse{problemLog: &problemLog{write: problem}, out: out, now: time.Now, stop: make(chan struct{})}
	p.stopped.Go(p.run)
	return p
}

// problemLog writes a problem only if it differs from the previous one.
type problemLog struct {
	write func(error)
	mu    sync.Mutex
	last  string
}

// Problem implements Display.
func (p *problemLog) Problem(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if err.Error() != p.last {
		p.last = err.Error()
		p.write(fmt.Errorf("%w; retrying", err))
	}
}

// Close implements Display.
func (p *problemLog) Close() {}

// pulse writes the summary now and then.
type pulse struct {
	*problemLog
	out     io.Writer
	now     func() time.Time
	stop    chan struct{}
	stopped sync.WaitGroup

	mu            sync.Mutex
	last, written string
	at            time.Time // of the last line
}

// Show implements Display.
func (p *pulse) Show(report Report) error {
	p.mu.Lock()
	p.last = ""
	if report.State == RollingOut {
		p.last = report.Summary
	}
	p.mu.Unlock()
	p.beat()
	return nil
}

// run beats every second until Close.
func (p *pulse) run() {
	ticker := time.NewTicker(time.Second)
	defer ticker.Stop()
	for {
		select {
		case <-p.stop:
			return
		case <-ticker.C:
			p.beat()
		}
	}
}

// Close implements Display.
func (p *pulse) Close() {
	close(p.stop)
	p.stopped.Wait()
}

// beat writes the summary if it is time. An error is ignored: the report is written elsewhere.
func (p *pulse) beat() {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := p.now()
	since := now.Sub(p.at)
	if p.last == "" || since < 10*time.Second || p.last == p.written && since < time.Minute {
		return
	}
	fmt.Fprintln(p.out, now.UTC().Format(time.RFC3339), term.Printable(p.last))
	p.written, p.at = p.last, now
}

// documents writes a document for each report that differs from the previous one.
type documents struct {
	*problemLog
	out    io.Writer
	format Format
	last   Report
}

// Show implements Display.
func (d *documents) Show(report Report) error {
	if reflect.DeepEqual(report, d.last) {
		return nil
	}
	d.last = report
	var text bytes.Buffer
	if err := report.Write(&text, d.format, time.Now(), false, Layout{}); err != nil {
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
	last Report
}

// Show implements Display.
func (f *factLog) Show(report Report) error {
	for _, fact := range report.Changes(f.last) {
		if _, err := fmt.Fprintln(f.out, f.now().UTC().Format(time.RFC3339), fact); err != nil {
			return err
		}
	}
	f.last = report
	return nil
}

// The reasons for which a user ends a display on a terminal: the key q, and Ctrl-C.
var (
	ErrQuit        = errors.New("ended by the user")
	ErrInterrupted = errors.New("interrupted")
)

// StateError reports a rollout that is not at rest, for the exit code.
type StateError struct {
	State State
	// Message is empty if the report explains the state.
	Message string
}

func (e *StateError) Error() string { return e.Message }
