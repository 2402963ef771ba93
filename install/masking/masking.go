// SPDX-License-Identifier: Apache-2.0

// Package masking keeps the values of Secrets out of messages: the API server quotes the value of an invalid field, and its error becomes a
// condition, an event and a line of the log.
package masking

import (
	"cmp"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Mask replaces values in texts. It is safe for concurrent use; nil, and the zero value, replace nothing.
type Mask struct {
	mu    sync.RWMutex
	names map[string]string // by value
	// values are the longest first, because one can be a part of another.
	values []string
}

// Add replaces values from now on by their names. Values are never forgotten: a message about an old one may still come.
func (m *Mask) Add(valuesByName map[string]string) {
	if m == nil {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.names == nil {
		m.names = map[string]string{}
	}
	for name, value := range valuesByName {
		for _, form := range forms(value) {
			m.names[form] = name
		}
	}
	m.values = slices.SortedFunc(maps.Keys(m.names), func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
}

// longLine is the length of a line that is replaced without the other lines of its value.
const longLine = 8

// forms returns a value as it occurs in texts: as it is, line by line, and with the escapes of JSON and Go.
func forms(value string) (all []string) {
	for _, part := range append(strings.Split(value, "\n"), value) {
		if part != value && len(part) < longLine {
			continue
		}
		encoded, _ := json.Marshal(part)
		quoted := strconv.Quote(part)
		for _, form := range []string{part, string(encoded[1 : len(encoded)-1]), quoted[1 : len(quoted)-1]} {
			if strings.TrimSpace(form) != "" {
				all = append(all, form)
			}
		}
	}
	return all
}

// short is the length of values that are replaced only as whole words: "eu" is not a part of "neutral".
const short = 4

// Text returns a text without the values.
func (m *Mask) Text(text string) string {
	if m == nil {
		return text
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, value := range m.values {
		if len(value) >= short {
			text = strings.ReplaceAll(text, value, m.names[value])
		} else {
			text = replaceWord(text, value, m.names[value])
		}
	}
	return text
}

func replaceWord(text, word, by string) string {
	var out strings.Builder
	rest := text
	before := byte(' ')
	for {
		at := strings.Index(rest, word)
		if at < 0 {
			out.WriteString(rest)
			return out.String()
		}
		if at > 0 {
			before = rest[at-1]
		}
		after := byte(' ')
		if end := at + len(word); end < len(rest) {
			after = rest[end]
		}
		out.WriteString(rest[:at])
		if isWord(before) || isWord(after) {
			out.WriteString(word)
		} else {
			out.WriteString(by)
		}
		before = word[len(word)-1]
		rest = rest[at+len(word):]
	}
}

func isWord(b byte) bool {
	return 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9' || b == '_'
}

// Writer returns a writer of a log. Each write must be a whole line.
func (m *Mask) Writer(to io.Writer) io.Writer { return writer{m, to} }

type writer struct {
	mask *Mask
	to   io.Writer
}

func (w writer) Write(line []byte) (int, error) {
	if _, err := io.WriteString(w.to, w.mask.Text(string(line))); err != nil {
		return 0, err
	}
	return len(line), nil
}
