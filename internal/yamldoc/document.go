// SPDX-License-Identifier: Apache-2.0

// Package yamldoc splits a YAML stream into documents with line numbers, and parses
// documents into Kubernetes objects. A list is replaced by its items.
package yamldoc

import (
	"bytes"
	"slices"
	"strings"
)

// Document is one document of a YAML stream.
type Document struct {
	// Number of the document, from 1, counting only documents with content. It is
	// 0 if the document has only blank lines and comments.
	Number int
	// Line of the stream where the content begins, from 1; 0 if there is none.
	Line int
	// Start is the line of the stream where Text begins, from 1.
	Start int
	// Text of the document, from its "---" line on. It shares memory with the
	// stream.
	Text []byte
}

// IsEmpty reports whether a document has only blank lines and comments.
func (d Document) IsEmpty() bool { return d.Number == 0 }

// LineAt returns the line of the stream at an offset in Text.
func (d Document) LineAt(offset int) int {
	return d.Start + bytes.Count(d.Text[:offset], []byte("\n"))
}

// Split divides a stream in UTF-8 into documents, including those without content. An
// empty stream is one document without content.
func Split(stream []byte) []Document {
	var documents []Document
	current := Document{Start: 1}
	begin, end, line, count := 0, 0, 0, 0
	finish := func() {
		if current.Line > 0 {
			count++
			current.Number = count
		}
		current.Text = stream[begin:end:end]
		documents = append(documents, current)
	}
	for text := range bytes.Lines(stream) {
		line++
		content, separates := cutMarker(withoutMark(text, line))
		if separates && end > 0 {
			finish()
			current, begin = Document{Start: line}, end
		}
		if current.Line == 0 && !isBlank(content) {
			current.Line = line
		}
		end += len(text)
	}
	finish()
	return documents
}

// SplitNonEmpty is like Split but omits the documents without content.
func SplitNonEmpty(stream []byte) []Document {
	return slices.DeleteFunc(Split(stream), Document.IsEmpty)
}

// withoutMark returns a line without the byte order mark that can begin a stream.
func withoutMark(text []byte, line int) []byte {
	if line > 1 {
		return text
	}
	return bytes.TrimPrefix(text, []byte(mark))
}

// cutMarker reports whether a line separates two documents, and returns the part
// of the line after the marker.
func cutMarker(line []byte) (content []byte, separates bool) {
	for _, marker := range []string{"---", "..."} {
		after, found := bytes.CutPrefix(line, []byte(marker))
		if found && (len(after) == 0 || strings.ContainsRune(" \t\r\n", rune(after[0]))) {
			return after, true
		}
	}
	return line, false
}

// isBlank reports whether a line has only white space and a comment.
func isBlank(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == '#'
}
