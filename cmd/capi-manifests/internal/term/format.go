// SPDX-License-Identifier: Apache-2.0

package term

import (
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// FormatFlag returns a flag that sets an output format to one of the formats. The
// zero value of F is the format "text".
func FormatFlag[F ~string](format *F, formats []string) pflag.Value {
	return &formatFlag[F]{format, formats}
}

type formatFlag[F ~string] struct {
	format  *F
	formats []string
}

// String implements pflag.Value.
func (f *formatFlag[F]) String() string {
	if f.format == nil || *f.format == "" {
		return "text"
	}
	return string(*f.format)
}

// Set implements pflag.Value.
func (f *formatFlag[F]) Set(text string) error {
	if !slices.Contains(f.formats, text) {
		return errors.New("must be one of " + strings.Join(f.formats, ", "))
	}
	*f.format = F(strings.TrimPrefix(text, "text"))
	return nil
}

// Type implements pflag.Value.
func (f *formatFlag[F]) Type() string { return "format" }
