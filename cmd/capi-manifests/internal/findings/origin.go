// SPDX-License-Identifier: Apache-2.0

package findings

import (
	"os"
	"regexp"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// AttributeTo moves the findings of a rendered bundle to the source files of its
// objects. files returns the files that may define a field of an object, such as
// "Deployment" "manager": patches first, the file of the object last; none if they
// are unknown. All other findings are attributed to file, without a line. rendered
// are the manifests of the bundle.
func (v *Report) AttributeTo(file string, rendered []byte, files func(kind, name string) []string) {
	sources := sources{"": objectsIn(rendered)}
	for i := range v.Bundles {
		for j := range v.Bundles[i].Findings {
			f := &v.Bundles[i].Findings[j]
			kind, name, _ := strings.Cut(f.Object, " ")
			name = name[strings.LastIndex(name, "/")+1:]
			f.File, f.Line = file, 0
			path := pathOf(f.Field)
			var value *yaml.Node
			if o, found := sources.object("", kind, name); found {
				value = nameElements(o.node, path)
			}
			if at, line := sources.find(files(kind, name), kind, name, path, value); line > 0 {
				f.File, f.Line = at, line
			}
		}
	}
}

// sources maps files to their objects, and "" to the rendered objects.
type sources map[string][]sourceObject

// sourceObject is an object in a file, before rendering.
type sourceObject struct {
	// line is the line of the file before the document.
	line int
	node *yaml.Node
}

// find returns the first file that sets the field of an object to its rendered
// value, and the line. If no file has the field, it returns the position of the
// field's nearest parent in the last file. The line is 0 if the value comes from
// elsewhere, such as a JSON patch.
func (s sources) find(files []string, kind, name string, path []pathStep, rendered *yaml.Node) (file string, line int) {
	for _, candidate := range files {
		o, found := s.object(candidate, kind, name)
		if !found {
			continue
		}
		value, at := valueAt(o.node, path)
		switch {
		case value == nil:
			file, line = candidate, o.line+at
		case comesFrom(rendered, value):
			return candidate, o.line + at
		default:
			file, line = "", 0
		}
	}
	return file, line
}

// comesFrom reports whether a rendered value may come from a value in a source:
// scalars must be equal, except for the prefix and suffix of names; other values
// are not compared.
func comesFrom(rendered, value *yaml.Node) bool {
	if rendered == nil || value.Kind != yaml.ScalarNode || rendered.Kind != yaml.ScalarNode {
		return rendered != nil && value.Kind == rendered.Kind
	}
	return strings.Contains(rendered.Value, value.Value)
}

// object returns the object in a file that is rendered with a kind and name.
// kustomize may add a prefix and a suffix to the name.
func (s sources) object(file, kind, name string) (best sourceObject, found bool) {
	if _, known := s[file]; !known {
		s[file] = readSource(file)
	}
	longest := ""
	for _, o := range s[file] {
		own := textAt(o.node, "metadata", "name")
		if textAt(o.node, "kind") == kind && own != "" && strings.Contains(name, own) && len(own) > len(longest) {
			best, found, longest = o, true, own
		}
	}
	return best, found
}

// readSource returns the objects of a file; none if it cannot be read, because
// kustomize has already reported that.
func readSource(file string) []sourceObject {
	content, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	if content, err = yamldoc.ToUTF8(content); err != nil {
		return nil
	}
	return objectsIn(content)
}

// objectsIn returns the objects of a YAML stream, without invalid documents.
func objectsIn(content []byte) (objects []sourceObject) {
	for _, document := range yamldoc.SplitNonEmpty(content) {
		var root yaml.Node
		if yaml.Unmarshal(document.Text, &root) == nil && len(root.Content) == 1 {
			objects = append(objects, sourceObject{document.Start - 1, root.Content[0]})
		}
	}
	return objects
}

// pathStep is a key, or the index of an element of a list. Indexes in patches and
// sources differ from those in the rendered object, so elements with a name are
// found by their name.
type pathStep struct{ key, name string }

// stepText matches a step in the path of a field: a key, a key in brackets or an index.
var stepText = regexp.MustCompile(`\[([^\]]*)\]|[^.\[]+`)

// pathOf splits the path of a field, such as "spec.containers[0].image" or
// "metadata.labels[a.b/c]".
func pathOf(field string) (path []pathStep) {
	for _, match := range stepText.FindAllStringSubmatch(field, -1) {
		if match[1] != "" {
			match[0] = match[1]
		}
		path = append(path, pathStep{key: match[0]})
	}
	return path
}

// nameElements adds the names of elements of lists in an object to a path, and returns the value there; nil if there is none.
func nameElements(node *yaml.Node, path []pathStep) *yaml.Node {
	for i := range path {
		isElement := node.Kind == yaml.SequenceNode
		if node, _ = childOf(node, path[i]); node == nil {
			return nil
		}
		if isElement {
			path[i].name = textAt(node, "name")
		}
	}
	return node
}

// valueAt returns the value of a field in a node, or nil, and the line of the field
// or of its nearest parent.
func valueAt(node *yaml.Node, path []pathStep) (value *yaml.Node, line int) {
	line = node.Line
	for _, step := range path {
		child, at := childOf(node, step)
		if child == nil {
			return nil, line
		}
		node, line = child, at
	}
	return node, line
}

// childOf returns the value of a key or an element of a list, and its line; nil if there is none.
func childOf(node *yaml.Node, step pathStep) (*yaml.Node, int) {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	for i := 0; node.Kind == yaml.MappingNode && i+1 < len(node.Content); i += 2 {
		if node.Content[i].Value == step.key {
			return node.Content[i+1], node.Content[i].Line
		}
	}
	for i := 0; node.Kind == yaml.SequenceNode && i < len(node.Content); i++ {
		if step.name == "" && step.key == strconv.Itoa(i) || step.name != "" && textAt(node.Content[i], "name") == step.name {
			return node.Content[i], node.Content[i].Line
		}
	}
	return nil, 0
}

// textAt returns the scalar at a path; empty if there is none.
func textAt(node *yaml.Node, path ...string) string {
	for _, key := range path {
		if node, _ = childOf(node, pathStep{key: key}); node == nil {
			return ""
		}
	}
	return node.Value
}
