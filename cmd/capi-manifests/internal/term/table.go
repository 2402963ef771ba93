// SPDX-License-Identifier: Apache-2.0

package term

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// Plural returns the count with the word one or more.
func Plural(count int, one, more string) string {
	if count == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", count, more)
}

// Columns writes a table with a header. It writes an empty line first unless w is
// empty, and nothing if there are no rows.
func Columns(w *bytes.Buffer, header []string, rows [][]string) {
	if len(rows) == 0 {
		return
	}
	if w.Len() > 0 {
		w.WriteByte('\n')
	}
	Aligned(w, append([][]string{header}, rows...))
}

// Aligned writes rows with aligned columns, without trailing blanks.
func Aligned(w io.Writer, rows [][]string) {
	var out bytes.Buffer
	tab := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(tab, strings.Join(row, "\t"))
	}
	_ = tab.Flush() // cannot fail: writes to a buffer
	for line := range strings.Lines(out.String()) {
		fmt.Fprintln(w, strings.TrimRight(line, " \n"))
	}
}

// Rows returns a row for each item.
func Rows[T any](items []T, row func(T) []string) [][]string {
	rows := make([][]string, len(items))
	for i, item := range items {
		rows[i] = row(item)
	}
	return rows
}

// OrNone returns a dash for an empty text.
func OrNone(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
