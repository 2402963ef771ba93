// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"errors"
	"strings"
	"testing"
	"time"

	"charm.land/bubbles/v2/viewport"
	tea "charm.land/bubbletea/v2"
)

// viewOf returns the view of a report on a terminal with keys.
func viewOf(width, height int, report Report) view {
	v := view{keys: true, now: func() time.Time { return now }, body: viewport.New()}
	return after(v, tea.WindowSizeMsg{Width: width, Height: height}, report)
}

// after returns a view after some messages.
func after(v view, messages ...tea.Msg) view {
	for _, message := range messages {
		next, _ := v.Update(message)
		v = next.(view)
	}
	return v
}

// shown returns the lines of a view without the spaces at their ends.
func shown(v view) string {
	var lines []string
	for line := range strings.Lines(v.View().Content) {
		lines = append(lines, strings.TrimRight(line, " \n")+"\n")
	}
	return strings.Join(lines, "")
}

// key returns the message of a key.
func key(name string) tea.Msg {
	special := map[string]rune{"up": tea.KeyUp, "down": tea.KeyDown, "pgup": tea.KeyPgUp, "pgdown": tea.KeyPgDown, "home": tea.KeyHome, "end": tea.KeyEnd}
	if code, is := special[name]; is {
		return tea.KeyPressMsg{Code: code}
	}
	if letter, control := strings.CutPrefix(name, "ctrl+"); control {
		return tea.KeyPressMsg{Code: rune(letter[0]), Mod: tea.ModCtrl}
	}
	return tea.KeyPressMsg{Code: rune(name[0]), Text: name}
}

// longReport has 100 lines that scroll.
func longReport() Report {
	report := upgradeOf(4)
	report.Versions, report.Signatures = nil, nil
	for i := range 98 {
		report.RetainedCRDs = append(report.RetainedCRDs, "line-"+string(rune('a'+i%26))+strings.Repeat("x", i/26))
	}
	return report
}

// TestView_KeysScrollTheBody checks the first line after some keys. The head stays.
func TestView_KeysScrollTheBody(t *testing.T) {
	const height = 24
	start := viewOf(80, height, longReport())
	page := start.body.Height()
	for _, c := range []struct {
		keys  string
		first int
	}{
		{"", 0}, {"down", 1}, {"j j up", 1}, {"pgdown", page}, {"pgdown pgdown pgup", page}, {"up", 0},
		{"G", 100 - page}, {"end down", 100 - page}, {"G g", 0}, {"G home", 0}, {"pgdown x", page},
	} {
		v := start
		for _, name := range strings.Fields(c.keys) {
			v = after(v, key(name))
		}
		if got := v.body.YOffset(); got != c.first {
			t.Errorf("%q: line %d is the first one, want %d", c.keys, got, c.first)
		}
		screen := shown(v)
		for _, part := range []string{"ROLLING OUT  Version 4.23.0-7", "admin@management", "Next steps\n  Wait, or check"} {
			if !strings.Contains(screen, part) {
				t.Errorf("%q: %q is not on the screen:\n%s", c.keys, part, screen)
			}
		}
		if lines := strings.Count(screen, "\n"); lines != height {
			t.Errorf("%q: %d lines", c.keys, lines)
		}
	}
}

// TestView_EachLineCanBeRead pages through a report on terminals of any size.
func TestView_EachLineCanBeRead(t *testing.T) {
	report := upgradeOf(63)
	for _, size := range [][2]int{{40, 24}, {60, 24}, {80, 24}, {120, 24}, {40, 8}, {20, 5}} {
		width, height := size[0], size[1]
		v := viewOf(width, height, report)
		v.noFold = true
		v = v.arranged()
		seen := map[string]bool{}
		for range 1000 {
			for line := range strings.Lines(shown(v)) {
				seen[line] = true
			}
			if v.body.AtBottom() {
				break
			}
			v = after(v, key("pgdown"))
		}
		for _, line := range report.Text(now, Layout{Width: width, NoFold: true}) {
			text := []rune(line.Paint(false))
			if !seen[strings.TrimRight(string(text[:min(len(text), width)]), " ")+"\n"] {
				t.Errorf("%d x %d: %q cannot be read", width, height, string(text))
			}
		}
	}
}

// TestView_AReportDoesNotScroll shows a newer report at the same line, and the end of a shorter one.
func TestView_AReportDoesNotScroll(t *testing.T) {
	v := after(viewOf(80, 24, longReport()), key("pgdown"), key("down"))
	at := v.body.YOffset()
	if v = after(v, longReport(), second{}); v.body.YOffset() != at {
		t.Errorf("line %d is the first one, want %d", v.body.YOffset(), at)
	}
	if v = after(v, upgradeOf(4)); !strings.Contains(shown(v), "4.22.3-6  installed") {
		t.Errorf("got\n%s", shown(v))
	}
}

// TestView_FitsAfterAResize has a report for the new width, with the first line that was shown before.
func TestView_FitsAfterAResize(t *testing.T) {
	v := after(viewOf(120, 40, upgradeOf(63)), tea.WindowSizeMsg{Width: 60, Height: 12})
	if want := viewOf(60, 12, upgradeOf(63)); shown(v) != shown(want) {
		t.Errorf("got\n%s\nwant\n%s", shown(v), shown(want))
	}
	end := after(v, key("G"), tea.WindowSizeMsg{Width: 120, Height: 60})
	if !strings.Contains(shown(end), "4.23.0-7  being installed") || end.body.YOffset() != 0 {
		t.Errorf("a larger terminal has an empty end:\n%s", shown(end))
	}
}

// TestView_KeysThatEndIt returns the reason to the display.
func TestView_KeysThatEndIt(t *testing.T) {
	for name, want := range map[string]error{"q": ErrQuit, "ctrl+c": ErrInterrupted} {
		next, command := viewOf(80, 24, upgradeOf(4)).Update(key(name))
		if got := next.(view).end; !errors.Is(got, want) || command == nil || command() != tea.Quit() {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if _, command := viewOf(80, 24, upgradeOf(4)).Update(key("ctrl+z")); command == nil || command() != tea.Suspend() {
		t.Error("ctrl+z does not suspend the program")
	}
}

func TestView_ShowsAProblemUntilTheNextReport(t *testing.T) {
	v := after(viewOf(40, 24, longReport()), problem("reading pods: connection refused\x1b[2J"))
	got := shown(v)
	if joined := strings.Join(strings.Fields(got), " "); !strings.Contains(joined, "12:10:00 reading pods: connection refused\ufffd[2J; retrying") {
		t.Errorf("got\n%s", got)
	}
	if lines := strings.Count(got, "\n"); lines != 24 {
		t.Errorf("%d lines", lines)
	}
	if got := shown(after(v, longReport())); strings.Contains(got, "refused") {
		t.Errorf("got\n%s", got)
	}
}

// TestView_NamesKeysOnlyIfThereAreSome has the shown lines in the last line.
func TestView_NamesKeysOnlyIfThereAreSome(t *testing.T) {
	v := viewOf(80, 24, longReport())
	for _, c := range []struct {
		keys   bool
		report Report
		want   string
	}{
		{true, longReport(), "1-12 of 100  ↑↓ PgUp PgDn g G  q quits"}, {true, reportWith("a"), "q quits"},
		{false, longReport(), "1-12 of 100  enlarge the terminal"}, {false, reportWith("a"), ""},
	} {
		v.keys = c.keys
		lines := strings.Split(strings.TrimSuffix(shown(after(v, c.report)), "\n"), "\n")
		if got := lines[len(lines)-1]; got != c.want {
			t.Errorf("got %q, want %q", got, c.want)
		}
	}
}
