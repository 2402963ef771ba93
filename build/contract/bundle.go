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
	"github.com/capi-installer/capi-installer/internal/variable"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// Bundle is a bundle in the form that rules check.
type Bundle struct {
	Origin   extractor.Origin
	Metadata extractor.Metadata
	// Profile is the profile of a bundle in an image; empty if its layout has none.
	Profile string
	// Objects are the objects of all valid documents, in the order of the file.
	Objects []*Object
	// Required are the variables without default, at their positions.
	Required []variable.Use

	// Size of the manifests in bytes, and the number of their lines.
	Size int
	Text []byte

	// File contains the objects; empty means ManifestsFile.
	File string
	// Release is the release of the components; nil for a bundle.
	Release *ReleaseFiles

	Unreadable  Findings
	Moved       Findings           // namespaces in a release that clusterctl replaces
	Empty       []yamldoc.Document // documents with only blank lines and comments
	Lists       []*Object          // lists of objects
	Definitions Definitions
	Grants      Grants
}

// maxUnreadable is the maximum number of findings about invalid documents. Later documents are not read.
const maxUnreadable = 20

// Read reads the valid documents.
func Read(bundle extractor.Bundle) *Bundle {
	text, required := variable.ApplyDefaults(bundle.Manifests)
	b := &Bundle{Origin: bundle.Origin, Metadata: bundle.Metadata, Profile: bundle.Profile, Required: required, Size: len(bundle.Manifests), Text: bundle.Manifests}
	if b.readAll(ManifestsFile, text, b.read) {
		b.evaluate()
	}
	return b
}

// readAll reads the documents of a file. It is false if the text is invalid as a whole.
func (b *Bundle) readAll(file string, text []byte, read func(yamldoc.Document) error) bool {
	if err := yamldoc.CheckUTF8(text); err != nil {
		b.Unreadable = Findings{{File: file, Line: 1, Message: err.Error()}}
		return false
	}
	for _, document := range yamldoc.Split(text) {
		if len(b.Unreadable) == maxUnreadable {
			break
		}
		if document.IsEmpty() {
			b.Empty = append(b.Empty, document)
		} else if err := read(document); err != nil {
			b.Unreadable = append(b.Unreadable, Finding{File: file, Line: document.Line, Message: err.Error()})
		}
	}
	return true
}

// IsProvider reports whether the bundle installs a provider. A profile without a type is part of another operator, such as
// its admission policies, and the manifests of a release have the other part.
func (b *Bundle) IsProvider() bool { return b.Profile == "" || b.Metadata.ProviderType != "" }

// evaluate derives the facts about the objects. As the API server, it drops the namespace of cluster-scoped objects.
func (b *Bundle) evaluate() {
	b.Definitions = define(b)
	for _, o := range b.Objects {
		if o.Namespace != "" && b.ClusterScoped(o) {
			o.Namespace = ""
		}
	}
	b.Grants = grantsOfPods(b)
}

// OfKind returns the objects of the kinds.
func (b *Bundle) OfKind(kinds ...schema.GroupKind) []*Object {
	var found []*Object
	for _, o := range b.Objects {
		if slices.Contains(kinds, o.Kind) {
			found = append(found, o)
		}
	}
	return found
}

// Has reports whether the bundle has an object.
func (b *Bundle) Has(kind schema.GroupKind, namespace, name string) bool {
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

// add adds an object, or the objects of a list.
func (b *Bundle) add(node *yaml.Node, before int) error {
	o := &Object{before: before, file: b.File}
	o.Value = Value{Object: o}.child(node, "")
	if o.Node.Kind != yaml.MappingNode {
		if !o.Exists() {
			return nil
		}
		return errors.New("invalid Kubernetes object: want a mapping with fields")
	}
	if isList(o.Value) {
		b.Lists = append(b.Lists, o)
		var errs []error
		for _, item := range o.At("items").Items() {
			errs = append(errs, b.add(item.Node, before))
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

// isList reports whether the installer splits an object into the objects of its items.
func isList(v Value) bool {
	kind, items := v.At("kind").Text(), v.At("items").Node
	hasItems := items != nil && items.Kind == yaml.SequenceNode
	return yamldoc.IsList(v.At("apiVersion").Text(), kind, hasItems)
}

// maxValues is the maximum number of values of a document, including those that aliases repeat. Valid manifests of 32
// MiB have far fewer.
const maxValues = 5_000_000

// checkSize returns an error if aliases expand a document beyond maxValues.
func checkSize(root *yaml.Node) error {
	sizes := map[*yaml.Node]int{}
	if size := sizeOf(root, sizes); size > maxValues {
		return fmt.Errorf("aliases expand to more than %d values", maxValues)
	}
	return nil
}

// sizeOf returns the number of values in a node; more than maxValues if the node contains itself. sizes caches the
// sizes of nodes with an anchor, because aliases refer to them.
func sizeOf(node *yaml.Node, sizes map[*yaml.Node]int) int {
	if node.Kind == yaml.AliasNode {
		return sizeOf(node.Alias, sizes)
	}
	if size, known := sizes[node]; known {
		return size
	}
	if node.Anchor != "" {
		sizes[node] = maxValues + 1 // until the size is known; final for a node that contains itself
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

// HasVariable reports whether a text may depend on a variable, whose value is unknown.
func HasVariable(text string) bool { return variable.Contains([]byte(text)) }

// ClusterScoped reports whether an object is known to be cluster-scoped.
func (b *Bundle) ClusterScoped(o *Object) bool {
	if d := b.Definitions.Kind(o.Kind.Group, o.Kind.Kind); d != nil {
		return d.At("spec", "scope").Text() == "Cluster"
	}
	return slices.Contains(ClusterctlScope, o.Kind.Kind) || object.Scopes(nil).Of(o.Kind) == object.ScopeCluster
}
