// SPDX-License-Identifier: Apache-2.0

package controlplane

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"sync"
	"time"
)

// meter prints the progress of a build: on a terminal in place every second, otherwise as a line every ten seconds.
type meter struct {
	out     io.Writer
	inPlace bool
	started time.Time
	done    chan struct{}
	ended   sync.WaitGroup

	mu     sync.Mutex
	state  string
	stale  map[string]bool
	total  int
	loaded int
}

func startMeter(out io.Writer) *meter {
	m := &meter{out: out, inPlace: terminal(out), started: time.Now(), done: make(chan struct{})}
	every := 10 * time.Second
	if m.inPlace {
		every = time.Second
	}
	m.ended.Go(func() { m.tick(every) })
	return m
}

func terminal(out io.Writer) bool {
	file, ok := out.(*os.File)
	if !ok {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}

func (m *meter) tick(every time.Duration) {
	ticker := time.NewTicker(every)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			m.mu.Lock()
			m.show()
			m.mu.Unlock()
		case <-m.done:
			return
		}
	}
}

// stop ends the display.
func (m *meter) stop() {
	close(m.done)
	m.ended.Wait()
}

func (m *meter) elapsed() time.Duration { return time.Since(m.started).Round(time.Second) }

// show writes the state; the caller must hold the lock.
func (m *meter) show() {
	line := fmt.Sprintf("  %s, %s", m.state, m.elapsed())
	if m.inPlace {
		fmt.Fprintf(m.out, "\r\x1b[K%s", line)
		return
	}
	fmt.Fprintln(m.out, line)
}

// say writes a line that stays.
func (m *meter) say(format string, arguments ...any) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.inPlace {
		fmt.Fprint(m.out, "\r\x1b[K")
	}
	fmt.Fprintf(m.out, format+"\n", arguments...)
}

// phase starts a phase and shows it immediately.
func (m *meter) phase(state string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state = state
	m.show()
}

// downloading counts the modules that go reports as downloading.
func (m *meter) downloading(line string) {
	if !strings.HasPrefix(line, "go: downloading ") {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.loaded++
	m.state = fmt.Sprintf("downloading modules: %d so far", m.loaded)
}

// expect sets the packages to compile.
func (m *meter) expect(stale []string) {
	m.mu.Lock()
	m.total = len(stale)
	m.stale = map[string]bool{}
	for _, name := range stale {
		m.stale[name] = true
	}
	m.mu.Unlock()
	m.phase(m.compiled())
}

// compiling counts the packages that go build -v prints.
func (m *meter) compiling(line string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stale[line] {
		delete(m.stale, line)
		m.state = m.compiled()
	}
}

func (m *meter) compiled() string {
	if len(m.stale) == 0 {
		return fmt.Sprintf("linking, after compiling %d packages", m.total)
	}
	return fmt.Sprintf("compiling: %d of %d packages", m.total-len(m.stale), m.total)
}

// lines passes each written line to a function and stores the last ones.
type lines struct {
	each    func(string)
	partial []byte
	recent  []string
}

const remembered = 30

func (l *lines) Write(p []byte) (int, error) {
	l.partial = append(l.partial, p...)
	for {
		line, rest, found := bytes.Cut(l.partial, []byte("\n"))
		if !found {
			return len(p), nil
		}
		l.partial = rest
		l.add(string(line))
	}
}

func (l *lines) add(line string) {
	if l.each != nil {
		l.each(line)
	}
	l.recent = append(l.recent, line)
	if len(l.recent) > remembered {
		l.recent = slices.Delete(l.recent, 0, len(l.recent)-remembered)
	}
}

func (l *lines) last() string {
	return strings.TrimSpace(strings.Join(append(l.recent, string(l.partial)), "\n"))
}
