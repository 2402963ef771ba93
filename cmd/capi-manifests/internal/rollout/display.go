// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"bytes"
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

// NewDisplay returns the display for a format. Text on a terminal is redrawn in
// place; otherwise it has a line for each new fact. problem writes the errors,
// except on a terminal: that has its own width.
func NewDisplay(out io.Writer, format Format, color, noFold bool, problem func(error)) Display {
	problems := &problemLog{write: problem}
	switch {
	case format != Text:
		return &documents{problemLog: problems, out: out, format: format}
	case term.IsTerminal(out):
		return newScreen(out, color, noFold)
	default:
		return &factLog{problemLog: problems, out: out, now: time.Now}
	}
}

// NewPulse returns the display of a command that only waits: while the rollout is in progress, it writes the summary at once, and then when it
// has changed, at most every ten seconds, and every minute otherwise.
func NewPulse(out io.Writer, problem func(error)) Display {
	p := &pulse{problemLog: &problemLog{write: problem}, out: out, now: time.Now}
	p.start(p.beat)
	return p
}

// ticking calls a function every second.
type ticking struct {
	stop    chan struct{}
	stopped sync.WaitGroup
}

func (t *ticking) start(call func()) {
	t.stop = make(chan struct{})
	t.stopped.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-t.stop:
				return
			case <-ticker.C:
				call()
			}
		}
	})
}

// Close implements Display.
func (t *ticking) Close() {
	close(t.stop)
	t.stopped.Wait()
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
	ticking
	out io.Writer
	now func() time.Time

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

// Close implements Display.
func (p *pulse) Close() { p.ticking.Close() }

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
