// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
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
