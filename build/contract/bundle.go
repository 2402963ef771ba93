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
	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
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
	// release is the release of the components; nil for a bundle.
	release *release

	unreadable  []Finding
	empty       []yamldoc.Document // of nothing but blank lines and comments
	lists       []*Object          // that stand for others
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

// readBundle reads the documents that can be read.
func readBundle(bundle extractor.Bundle) *Bundle {
	text, required := withDefaults(bundle.Manifests)
	b := &Bundle{Origin: bundle.Origin, Metadata: bundle.Metadata, Required: required, size: len(bundle.Manifests), text: bundle.Manifests}
	for _, document := range yamldoc.Split(text) {
		if len(b.unreadable) == maxUnreadable {
			break
		}
		if document.IsEmpty() {
			b.empty = append(b.empty, document)
			continue
		}
		if err := b.read(document); err != nil {
			b.unreadable = append(b.unreadable, Finding{File: ManifestsFile, Line: document.Line, Message: err.Error()})
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

// has reports whether the bundle has an object.
func (b *Bundle) has(kind schema.GroupKind, namespace, name string) bool {
	return slices.ContainsFunc(b.Objects, func(o *Object) bool {
		return o.Kind == kind && o.Namespace == namespace && o.Name == name
	})
}

// read adds the objects of a document.
func (b *Bundle) read(document yamldoc.Document) error {
	var root yaml.Node
	if err := yaml.Unmarshal(document.Text, &root); err != nil {
		return exactError(document, err)
	}
	if len(root.Content) == 0 {
		return nil
	}
	if err := checkSize(&root); err != nil {
		return err
	}
	return b.add(root.Content[0], document.Start-1)
}

// exactError returns the error of a document with the line of the file, not of the document.
func exactError(d yamldoc.Document, err error) error {
	padded := append(bytes.Repeat([]byte("\n"), d.Start-1), d.Text...)
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
		return errors.New("invalid Kubernetes object: want a mapping with fields")
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
	if o.At("apiVersion").Text() == "" {
		o.Kind = kindNamed(o.Kind.Kind)
	}
	o.Name, o.Namespace = o.At("metadata", "name").Text(), o.At("metadata", "namespace").Text()
	b.Objects = append(b.Objects, o)
	return nil
}

// isList reports whether an object stands for others, as the installer takes it.
func isList(v Value) bool {
	kind, items := v.At("kind").Text(), v.At("items").node
	hasItems := items != nil && items.Kind == yaml.SequenceNode
	return yamldoc.IsList(v.At("apiVersion").Text(), kind, hasItems)
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

// eachObject makes a check of all objects out of one of one object.
func eachObject(check func(*Object) []Finding) func(*Bundle) []Finding {
	return func(b *Bundle) []Finding { return each(b.Objects, check) }
}

// each checks objects one by one.
func each(objects []*Object, check func(*Object) []Finding) (findings []Finding) {
	for _, o := range objects {
		findings = append(findings, check(o)...)
	}
	return findings
}

func checkUnique(b *Bundle) (findings []Finding) {
	first := map[object.Identity]*Object{}
	for _, o := range b.Objects {
		id := object.Identity{GroupKind: o.Kind, Namespace: o.Namespace, Name: o.Name}
		if other, twice := first[id]; twice && o.Name != "" {
			findings = append(findings, o.finding("is there already, on line %d", other.line()))
			continue
		}
		first[id] = o
	}
	return findings
}
