// SPDX-License-Identifier: Apache-2.0

package operand

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"
	"sigs.k8s.io/yaml"
)

// document is one YAML document of a manifests file.
type document struct {
	// Number counts the documents that hold something, from 1.
	Number int
	// Line of the file on which the contents of the document begin, from 1.
	Line int
	// Text of the document, from its "---" line on.
	Text []byte
	// start is the line of the file on which Text begins, from 1.
	start int
}

// split divides a manifests file at the lines that begin or end a document.
// Documents of nothing but blank lines and comments are left out.
func split(manifests []byte) []document {
	var documents []document
	current := document{start: 1}
	finish := func() {
		if current.Line > 0 {
			current.Number = len(documents) + 1
			documents = append(documents, current)
		}
	}
	line := 0
	for rest := manifests; len(rest) > 0; {
		line++
		length := bytes.IndexByte(rest, '\n') + 1
		if length == 0 {
			length = len(rest)
		}
		text := rest[:length]
		rest = rest[length:]
		content, separates := separator(text)
		if separates {
			finish()
			current = document{start: line}
		}
		if current.Line == 0 && !isBlank(content) {
			current.Line = line
		}
		current.Text = append(current.Text, text...)
	}
	finish()
	return documents
}

// separator says whether a line ends one document and begins another, and
// returns what of the line belongs to the contents of a document.
func separator(line []byte) (content []byte, separates bool) {
	for _, marker := range []string{"---", "..."} {
		after, found := bytes.CutPrefix(line, []byte(marker))
		if found && (len(after) == 0 || strings.ContainsRune(" \t\r\n", rune(after[0]))) {
			return after, true
		}
	}
	return line, false
}

// isBlank says whether a line holds nothing but space and a comment.
func isBlank(line []byte) bool {
	line = bytes.TrimSpace(line)
	return len(line) == 0 || line[0] == '#'
}

// lineAt is the line of the file at an offset in the text.
func (d document) lineAt(offset int) int {
	return d.start + bytes.Count(d.Text[:offset], []byte("\n"))
}

// parse returns the objects of the document's text after substitution: one, or
// the items of a list, or none if the document is empty. The lines in the error
// are lines of the manifests file.
func (d document) parse(text []byte) ([]map[string]any, error) {
	encoded, err := yaml.YAMLToJSONStrict(text)
	if err != nil {
		padded := append(bytes.Repeat([]byte("\n"), d.start-1), text...)
		if _, exact := yaml.YAMLToJSONStrict(padded); exact != nil {
			err = exact
		}
		return nil, err
	}
	var value any
	if err := utiljson.Unmarshal(encoded, &value); err != nil {
		return nil, err
	}
	return flatten(value)
}

// flatten returns the objects of a document's value.
func flatten(value any) ([]map[string]any, error) {
	if value == nil {
		return nil, nil
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, errors.New("not a Kubernetes object: it has no fields")
	}
	if !isList(object) {
		return []map[string]any{object}, nil
	}
	var objects []map[string]any
	var errs []error
	items, _ := object["items"].([]any)
	for i, item := range items {
		inner, err := flatten(item)
		if err != nil {
			errs = append(errs, fmt.Errorf("items[%d]: %w", i, err))
		}
		objects = append(objects, inner...)
	}
	return objects, errors.Join(errs...)
}

// isList says whether an object is a list of objects: of kind List, or of
// another kind with that ending that has items.
func isList(object map[string]any) bool {
	kind, _ := object["kind"].(string)
	_, items := object["items"].([]any)
	return kind == "List" && object["apiVersion"] == "v1" || items && strings.HasSuffix(kind, "List")
}
