// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"
)

// screen writes what happens as it happens, each line with the time since the start.
type screen struct {
	out   io.Writer
	start time.Time
}

// step announces the next part of the demonstration.
func (s *screen) step(format string, args ...any) {
	fmt.Fprintf(s.out, "\n%6.1fs  %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// line tells one thing that happened.
func (s *screen) line(format string, args ...any) {
	fmt.Fprintf(s.out, "%6.1fs    %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// block shows a command or a heading, and text below it as it is.
func (s *screen) block(title, text string) {
	fmt.Fprintf(s.out, "\n        $ %s\n", title)
	for line := range strings.Lines(strings.TrimRight(text, "\n") + "\n") {
		fmt.Fprint(s.out, "          ", line)
	}
	fmt.Fprintln(s.out)
}

// sum describes counts by kind: "12 (GET 10, PATCH 2)".
func sum[N int | int64](counts map[string]N) string {
	var total N
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		total += counts[kind]
		parts = append(parts, fmt.Sprintf("%s %d", kind, counts[kind]))
	}
	return fmt.Sprintf("%d (%s)", total, strings.Join(parts, ", "))
}
