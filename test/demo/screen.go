// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
)

// screen writes lines with the time since the start.
type screen struct {
	out   io.Writer
	start time.Time
	mu    sync.Mutex
}

// step announces the next part of the demonstration.
func (s *screen) step(format string, args ...any) {
	s.write("\n%6.1fs  %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// line prints an event.
func (s *screen) line(format string, args ...any) {
	s.write("%6.1fs    %s\n", time.Since(s.start).Seconds(), fmt.Sprintf(format, args...))
}

// block prints a command or a heading, and the unmodified text below it.
func (s *screen) block(title, text string) {
	indented := "          " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n          ")
	s.write("\n        %s\n%s\n\n", title, indented)
}

func (s *screen) write(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	fmt.Fprintf(s.out, format, args...)
}

// sum describes counts by kind: "12 (GET 10, PATCH 2)".
func sum(counts map[string]int) string {
	total := 0
	var parts []string
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		total += counts[kind]
		parts = append(parts, fmt.Sprintf("%s %d", kind, counts[kind]))
	}
	return fmt.Sprintf("%d (%s)", total, strings.Join(parts, ", "))
}
