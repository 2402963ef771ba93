// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io"
	"os"
	"slices"

	"github.com/capi-installer/capi-installer/build/contract"
)

// colorMode says when to color: a pflag.Value. The zero value is on a terminal, unless NO_COLOR is set.
type colorMode string

func (c *colorMode) String() string {
	if *c == "" {
		return "auto"
	}
	return string(*c)
}

// Set implements pflag.Value.
func (c *colorMode) Set(text string) error {
	if !slices.Contains([]string{"auto", "always", "never"}, text) {
		return errors.New("the choices are auto, always and never")
	}
	*c = colorMode(text)
	return nil
}

// Type implements pflag.Value.
func (c *colorMode) Type() string { return "when" }

// on says whether to color what is written to w. See https://no-color.org.
func (c *colorMode) on(w io.Writer) bool {
	switch *c {
	case "always":
		return true
	case "never":
		return false
	}
	return isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"
}

// Codes of terminals: "select graphic rendition" of ECMA-48.
const (
	bold  = "1"
	faint = "2"
)

var severityColors = map[contract.Severity]string{contract.Error: "1;31", contract.Warning: "33", contract.Info: "36"}

// painter returns what colors a text, or leaves it as it is.
func painter(color bool) func(code, text string) string {
	return func(code, text string) string {
		if !color {
			return text
		}
		return "\x1b[" + code + "m" + text + "\x1b[0m"
	}
}
