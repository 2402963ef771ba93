// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"cmp"
	"iter"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/fluxcd/pkg/envsubst"
	"github.com/fluxcd/pkg/envsubst/parse"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// Template is a cluster template, or the definition of a ClusterClass, of a release. It has the objects that clusterctl
// creates if the user sets no optional variable: variables with a default have it, and all others have an unknown value. An
// unknown value equals only values from the same variables.
type Template struct {
	*Bundle
	// Invalid are the findings about variable expressions that clusterctl cannot parse.
	Invalid Findings

	// lines are the lines of the file, from 1, of each line of the text with values.
	lines []int
}

// Unknown values contain the name of their variable between two characters of Unicode's private use area, so that the values
// that expressions compute from them, such as a prefix, are recognizable as well.
const unknownStart, unknownEnd = "\ue000", "\ue001"

// IsUnknown reports whether a text of a Template depends on a variable without a default.
func IsUnknown(text string) bool { return strings.ContainsAny(text, unknownStart+unknownEnd) }

// written replaces unknown values in a text by their expressions.
var written = strings.NewReplacer(unknownStart, "${", unknownEnd, "}")

// Written returns a text with the expressions of unknown values.
func Written(text string) string { return written.Replace(text) }

// IsUnknown reports whether the value, or a part of it, depends on a variable without a default.
func (v Value) IsUnknown() bool {
	for part := range v.All() {
		if text := part.Text(); IsUnknown(text) || HasVariable(text) {
			return true
		}
		for key := range part.Fields() {
			if IsUnknown(key) || HasVariable(key) {
				return true
			}
		}
	}
	return false
}

// VariablesOf returns the variables of the unknown parts of a text, each once.
func VariablesOf(text string) []string {
	var names []string
	for _, match := range unknownName.FindAllStringSubmatch(text, -1) {
		names = append(names, match[1])
	}
	slices.Sort(names)
	return slices.Compact(names)
}

var unknownName = regexp.MustCompile(unknownStart + "([^" + unknownEnd + "]*)")

// isTemplate reports whether clusterctl reads a file of a release as a template.
func isTemplate(name string) bool {
	ending := path.Ext(name)
	return (strings.HasPrefix(name, ClusterTemplate) || strings.HasPrefix(name, ClusterClassFile)) && (ending == ".yaml" || ending == ".yml")
}

// ReadTemplate reads a template.
func ReadTemplate(name string, text []byte) *Template {
	t := &Template{Bundle: &Bundle{File: name, Text: text}}
	if yamldoc.CheckUTF8(text) == nil {
		text = t.substitute(string(text))
	}
	t.readAll(name, text, t.readDocument)
	return t
}

// readDocument reads a document of the text with values. Unknown values on a line of their own can be whole fields, or nothing, so
// they are omitted if the document is invalid with them.
func (t *Template) readDocument(document yamldoc.Document) error {
	read := func(text []byte) error {
		padded := append(bytes.Repeat([]byte("\n"), document.Start-1), text...) // so that errors have the lines of the file
		if err := yaml.Unmarshal(padded, &map[string]any{}); err != nil {       // as clusterctl does
			return err
		}
		return t.read(yamldoc.Document{Text: text, Start: document.Start, Line: document.Line})
	}
	err := read(document.Text)
	if err != nil && lonelyUnknown.Match(document.Text) {
		before := len(t.Objects)
		err = read(lonelyUnknown.ReplaceAll(document.Text, nil))
		for _, o := range t.Objects[before:] {
			o.incomplete = true
		}
	}
	return err
}

var lonelyUnknown = regexp.MustCompile(`(?m)^[ \t]*` + unknownStart + `[^` + unknownEnd + `\n]*` + unknownEnd + `[ \t]*$`)

// maxExpressionLines is the maximum number of lines of a variable expression.
const maxExpressionLines = 100

// substitute evaluates the variables as clusterctl does: expression by expression, so that the lines of the result are known.
func (t *Template) substitute(text string) []byte {
	lines := slices.Collect(strings.Lines(WithoutSpaces(text)))
	var out strings.Builder
	for i := 0; i < len(lines); {
		value, length, err := evaluate(lines[i:])
		if err != nil {
			t.Invalid = append(t.Invalid, Finding{File: t.File, Line: len(t.lines) + 1, Message: "invalid variable expression: " + err.Error()})
		}
		k := 0
		for line := range strings.Lines(value) {
			t.lines = append(t.lines, i+1+min(k, length-1))
			out.WriteString(line)
			k++
		}
		i += length
	}
	return []byte(out.String())
}

// evaluate evaluates the fewest of the lines that have no incomplete expression, and returns their number; the first line, unchanged,
// if its expressions are invalid.
func evaluate(lines []string) (value string, length int, err error) {
	if !strings.Contains(lines[0], "${") {
		return lines[0], 1, nil
	}
	for length = 1; length <= min(len(lines), maxExpressionLines); length++ {
		chunk := strings.Join(lines[:length], "")
		value, invalid := evaluateText(chunk)
		if invalid == nil {
			return value, length, nil
		}
		err = cmp.Or(err, invalid)
	}
	return lines[0], 1, err
}

// evaluateText evaluates the expressions of a text. Variables with a default are empty, so that it applies.
func evaluateText(text string) (value string, err error) {
	tree, err := parse.Parse(text)
	if err != nil {
		return "", err
	}
	withDefault := map[string]bool{}
	for expression := range functions(tree.Root) {
		withDefault[expression.Param] = withDefault[expression.Param] || isDefault(expression)
	}
	value, err = envsubst.Eval(text, func(name string) (string, bool) {
		if withDefault[name] {
			return "", true
		}
		return unknownStart + name + unknownEnd, true
	})
	value = strings.ToValidUTF8(value, unknownStart) // an expression can cut an unknown value within a character
	return value, err
}

// functions returns the expressions in a parsed text, including those in operands.
func functions(node parse.Node) iter.Seq[*parse.FuncNode] {
	return func(yield func(*parse.FuncNode) bool) { visitFunctions(node, yield) }
}

func visitFunctions(node parse.Node, yield func(*parse.FuncNode) bool) bool {
	var nested []parse.Node
	switch node := node.(type) {
	case *parse.ListNode:
		nested = node.Nodes
	case *parse.FuncNode:
		if !yield(node) {
			return false
		}
		nested = node.Args
	}
	for _, child := range nested {
		if !visitFunctions(child, yield) {
			return false
		}
	}
	return true
}

// isDefault reports whether an expression has a default. An empty one counts as none, because clusterctl then requires a value.
func isDefault(node *parse.FuncNode) bool {
	if !slices.Contains([]string{"=", ":=", "-", ":-"}, node.Name) {
		return false
	}
	return slices.ContainsFunc(node.Args, func(argument parse.Node) bool {
		text, isText := argument.(*parse.TextNode)
		return !isText || text.Value != ""
	})
}

// LegacyVariable is an expression with spaces within the braces. clusterctl removes them.
var LegacyVariable = regexp.MustCompile(`\$\{(\s+[A-Za-z0-9_$]+\s*|[A-Za-z0-9_$]+\s+)\}`)

// WithoutSpaces removes spaces within the braces of variables, but not line breaks.
func WithoutSpaces(text string) string {
	return LegacyVariable.ReplaceAllStringFunc(text, func(expression string) string {
		return strings.Join(strings.Fields(expression), "") + strings.Repeat("\n", strings.Count(expression, "\n"))
	})
}

// SourceLine returns the line of the file, from 1, of a line of the text with values.
func (t *Template) SourceLine(line int) int {
	if line < 1 || line > len(t.lines) {
		return line
	}
	return t.lines[line-1]
}

// HasVariableOn reports whether a line of the text with values has a variable in the file, except in a comment.
func (t *Template) HasVariableOn(line int) bool {
	source, number := t.SourceLine(line), 0
	for text := range strings.Lines(string(t.Text)) {
		if number++; number == source {
			text, _, _ = strings.Cut(text, " #")
			return HasVariable(text)
		}
	}
	return false
}

// InFile returns findings of the text with values as findings of the file.
func (t *Template) InFile(findings Findings) Findings {
	for i, f := range findings {
		findings[i].Line = t.SourceLine(f.Line)
		findings[i].Object, findings[i].Field, findings[i].Message = Written(f.Object), Written(f.Field), Written(f.Message)
	}
	return findings
}
