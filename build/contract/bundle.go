// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/capi-installer/capi-installer/extractor"
)

// Bundle is a bundle as rules see it.
type Bundle struct {
	Origin   extractor.Origin
	Metadata extractor.Metadata
	// Objects are those of the documents that can be read, in the order of the file.
	Objects []*Object
	// Required are the variables without default, where they stand.
	Required []Variable

	// size of the manifests in bytes, and their lines.
	size int
	text []byte

	// file is the one that the objects are in; empty is ManifestsFile.
	file string
	// release is what the components belong to; nil for a bundle.
	release *release

	unreadable  []Finding
	empty       []document // of nothing but blank lines and comments
	lists       []*Object  // that stand for others
	definitions []*definition
	grants      grants
}

// Variable is a variable in the manifests.
type Variable struct {
	Name string
	// Line of the manifests file, from 1.
	Line int
}

// maxUnreadable is how many documents that cannot be read are worth telling. The
// documents after them are not looked at.
const maxUnreadable = 20

// readBundle reads what can be read.
func readBundle(bundle extractor.Bundle) *Bundle {
	text, required := withDefaults(bundle.Manifests)
	b := &Bundle{Origin: bundle.Origin, Metadata: bundle.Metadata, Required: required, size: len(bundle.Manifests), text: bundle.Manifests}
	for _, document := range split(text) {
		if len(b.unreadable) == maxUnreadable {
			break
		}
		if document.line == 0 {
			b.empty = append(b.empty, document)
			continue
		}
		if err := b.read(document); err != nil {
			b.unreadable = append(b.unreadable, Finding{File: ManifestsFile, Line: document.line, Message: err.Error()})
		}
	}
	b.definitions, b.grants = define(b), grantsOfPods(b)
	return b
}

// ofKind are the objects of the kinds.
func (b *Bundle) ofKind(kinds ...schema.GroupKind) []*Object {
	var found []*Object
	for _, o := range b.Objects {
		if slices.Contains(kinds, o.Kind) {
			found = append(found, o)
		}
	}
	return found
}

// has says whether the bundle has an object.
func (b *Bundle) has(kind schema.GroupKind, namespace, name string) bool {
	return slices.ContainsFunc(b.Objects, func(o *Object) bool {
		return o.Kind == kind && o.Namespace == namespace && o.Name == name
	})
}

// document is the text of one YAML document.
type document struct {
	text []byte
	// before is how many lines of the file stand before text; line is the first one that says something, from 1, or 0.
	before, line int
}

// split divides the text where the installer does: at each line that begins or
// ends a document.
func split(text []byte) []document {
	var documents []document
	current := document{}
	number := 0
	for line := range bytes.Lines(text) {
		if marksDocument(line) {
			documents = append(documents, current)
			current = document{before: number}
		}
		number++
		if current.line == 0 && saysSomething(line) {
			current.line = number
		}
		current.text = append(current.text, line...)
	}
	return append(documents, current)
}

func marksDocument(line []byte) bool {
	for _, marker := range []string{"---", "..."} {
		rest, found := bytes.CutPrefix(line, []byte(marker))
		if found && (len(rest) == 0 || strings.ContainsRune(" \t\r\n", rune(rest[0]))) {
			return true
		}
	}
	return false
}

func saysSomething(line []byte) bool {
	if marksDocument(line) {
		line = line[len("---"):]
	}
	line = bytes.TrimSpace(line)
	return len(line) > 0 && line[0] != '#'
}

// read adds the objects of a document.
func (b *Bundle) read(document document) error {
	var root yaml.Node
	if err := yaml.Unmarshal(document.text, &root); err != nil {
		return document.exact(err)
	}
	if len(root.Content) == 0 {
		return nil
	}
	if err := checkSize(&root); err != nil {
		return err
	}
	return b.add(root.Content[0], document.before)
}

// exact is the error of a document with the line of the file, not of the document.
func (d document) exact(err error) error {
	padded := append(bytes.Repeat([]byte("\n"), d.before), d.text...)
	if exact := yaml.Unmarshal(padded, new(yaml.Node)); exact != nil {
		return exact
	}
	return err
}

// add adds an object, or those of a list.
func (b *Bundle) add(node *yaml.Node, before int) error {
	o := &Object{before: before, file: b.file}
	o.Value = Value{object: o}.child(node, "")
	if o.node.Kind != yaml.MappingNode {
		if !o.Exists() {
			return nil
		}
		return errors.New("is no Kubernetes object: it has no fields")
	}
	if isList(o.Value) {
		b.lists = append(b.lists, o)
		var errs []error
		for _, item := range o.At("items").Items() {
			errs = append(errs, b.add(item.node, before))
		}
		return errors.Join(errs...)
	}
	group, _, grouped := strings.Cut(o.At("apiVersion").Text(), "/")
	if !grouped {
		group = ""
	}
	o.Kind = schema.GroupKind{Group: group, Kind: o.At("kind").Text()}
	o.Name, o.Namespace = o.At("metadata", "name").Text(), o.At("metadata", "namespace").Text()
	b.Objects = append(b.Objects, o)
	return nil
}

// isList says whether an object stands for others, as the installer takes it.
func isList(v Value) bool {
	kind, items := v.At("kind").Text(), v.At("items").node
	hasItems := items != nil && items.Kind == yaml.SequenceNode
	return kind == "List" && v.At("apiVersion").Text() == "v1" || hasItems && strings.HasSuffix(kind, "List")
}

// maxValues is how many values a document may have, those that aliases repeat
// included: far more than 32 MiB of manifests that mean something.
const maxValues = 5_000_000

// checkSize returns an error if aliases make more of a document than anybody can read.
func checkSize(root *yaml.Node) error {
	sizes := map[*yaml.Node]int{}
	if size := sizeOf(root, sizes); size > maxValues {
		return fmt.Errorf("its aliases repeat each other, to more than %d values", maxValues)
	}
	return nil
}

// sizeOf is how many values there are in a node; more than maxValues if it holds
// itself. sizes are those of nodes with an anchor, which aliases name.
func sizeOf(node *yaml.Node, sizes map[*yaml.Node]int) int {
	if node.Kind == yaml.AliasNode {
		return sizeOf(node.Alias, sizes)
	}
	if size, known := sizes[node]; known {
		return size
	}
	if node.Anchor != "" {
		sizes[node] = maxValues + 1 // until it is known; it stays for a node that holds itself
	}
	size := 1
	for _, child := range node.Content {
		size = min(size+sizeOf(child, sizes), maxValues+1)
	}
	if node.Anchor != "" {
		sizes[node] = size
	}
	return size
}
