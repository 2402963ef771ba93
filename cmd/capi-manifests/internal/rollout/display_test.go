// SPDX-License-Identifier: Apache-2.0

package rollout

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func reportWith(crds ...string) Report {
	return Report{State: RollingOut, Summary: "Version 4.22.0-1 is being rolled out.", RetainedCRDs: crds}
}

func TestFactLog_WritesNewFactsWithTheTime(t *testing.T) {
	var out bytes.Buffer
	var problems []string
	now := func() time.Time { return time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC) }
	log := NewDisplay(Terminal{Out: &out}, Text, func(err error) { problems = append(problems, err.Error()) })
	log.now = now
	for _, crds := range [][]string{{"a"}, {"a"}, {"a", "b"}} {
		if err := log.Show(reportWith(crds...)); err != nil {
			t.Fatal(err)
		}
		log.Problem(errors.New("connection refused"))
	}
	const at = "2026-05-04T12:00:00Z "
	if want := at + "retained CRD: a\n" + at + "ROLLING OUT: Version 4.22.0-1 is being rolled out.\n" + at + "retained CRD: b\n"; out.String() != want {
		t.Errorf("got %q, want %q", out.String(), want)
	}
	if want := []string{"connection refused; retrying"}; !slices.Equal(problems, want) {
		t.Errorf("got %q, want %q", problems, want)
	}
}

func TestPulse_WritesTheSummaryNowAndThen(t *testing.T) {
	var out bytes.Buffer
	at := now
	p := &Display{now: func() time.Time { return at }}
	p.draw = p.pulse(&out)
	for _, step := range []struct {
		after   int // seconds
		summary string
		state   State
	}{{0, "1 of 9", RollingOut}, {5, "2 of 9", RollingOut}, {10, "3 of 9", RollingOut}, {25, "3 of 9", RollingOut}, {70, "3 of 9", RollingOut}, {90, "done", AtRest}} {
		at = now.Add(time.Duration(step.after) * time.Second)
		if err := p.Show(Report{State: step.state, Summary: step.summary}); err != nil {
			t.Fatal(err)
		}
	}
	want := "2026-05-04T12:10:00Z 1 of 9\n2026-05-04T12:10:10Z 3 of 9\n2026-05-04T12:11:10Z 3 of 9\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}

func TestDocuments_OneForEachChange(t *testing.T) {
	var out bytes.Buffer
	documents := NewDisplay(Terminal{Out: &out}, YAML, nil)
	for _, crds := range [][]string{{"a"}, {"a"}, {"b"}} {
		if err := documents.Show(reportWith(crds...)); err != nil {
			t.Fatal(err)
		}
	}
	if got := strings.Count(out.String(), "---\n"); got != 2 {
		t.Errorf("got %d documents:\n%s", got, &out)
	}
}
