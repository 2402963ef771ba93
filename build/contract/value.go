// SPDX-License-Identifier: Apache-2.0

package contract

import (
	"cmp"
	"encoding/json"
	"fmt"
	"iter"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utiljson "k8s.io/apimachinery/pkg/util/json"
	sigsyaml "sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/internal/object"
)

// Object is one object of the manifests. Its Value is the whole object.
type Object struct {
	Value
	// Kind is the group and the kind; Name and Namespace come from its metadata.
	Kind            schema.GroupKind
	Name, Namespace string
	// asJSON caches the object as it is sent to the API server.
	asJSON []byte
	// before is the number of lines of the file before the document of the object.
	before int
	// file contains the object; empty means ManifestsFile.
	file string
	// incomplete is true for an object of a template without the fields that variables would add.
	incomplete bool
}

// String names the object: "Deployment openshift-cluster-api/manager".
func (o *Object) String() string {
	return o.Identity().String()
}

// Identity returns the identity of the object.
func (o *Object) Identity() object.Identity {
	return object.Identity{GroupKind: o.Kind, Namespace: o.Namespace, Name: o.Name}
}

// VersionedKind returns the kind with its version; no version if apiVersion is invalid.
func (o *Object) VersionedKind() schema.GroupVersionKind {
	return schema.FromAPIVersionAndKind(o.At("apiVersion").Text(), o.Kind.Kind)
}

// Value is a place in an object. A value that is missing, null or of another type than expected reads as empty, so that
// rules need no checks on the way down: other rules report whether an object is valid.
type Value struct {
	Object *Object
	Node   *yaml.Node // nil if the value is missing
	near   *yaml.Node // the node, or its nearest existing parent
	// Path from the object, such as "spec.versions[0].name".
	Path string
}

// Exists reports whether the value exists and is not null.
func (v Value) Exists() bool { return v.Node != nil && v.Node.Tag != "!!null" }

// Text returns the value of a scalar, as it is written.
func (v Value) Text() string {
	if !v.Exists() || v.Node.Kind != yaml.ScalarNode {
		return ""
	}
	return v.Node.Value
}

// IsString reports whether the API server also reads the value as a string.
func (v Value) IsString() bool {
	return v.Node != nil && v.Node.Kind == yaml.ScalarNode && v.Node.Tag == "!!str"
}

// IsQuoted reports whether the value is a string with any content, because the file has it in quotes or as a block of text.
func (v Value) IsQuoted() bool {
	const styles = yaml.SingleQuotedStyle | yaml.DoubleQuotedStyle | yaml.LiteralStyle | yaml.FoldedStyle
	return v.IsString() && v.Node.Style&styles != 0
}

// Length returns the number of elements of a list.
func (v Value) Length() int {
	if v.Node == nil || v.Node.Kind != yaml.SequenceNode {
		return 0
	}
	return len(v.Node.Content)
}

// At returns a field of nested mappings. If a field is missing, the Value does not exist, and findings at it have the
// line of the parent.
func (v Value) At(fields ...string) Value {
	for _, field := range fields {
		v = v.field(field)
	}
	return v
}

func (v Value) field(name string) Value {
	missing := Value{v.Object, nil, v.near, join(v.Path, name)}
	if v.Node == nil || v.Node.Kind != yaml.MappingNode {
		return missing
	}
	for i := len(v.Node.Content) - 2; i >= 0; i -= 2 { // parsers use the last of two equal keys
		if v.Node.Content[i].Value == name {
			return v.child(v.Node.Content[i+1], missing.Path)
		}
	}
	return v.merged(name, missing)
}

// merged returns a field of the mappings that the key "<<" merges.
func (v Value) merged(name string, missing Value) Value {
	if name == mergeKey {
		return missing
	}
	from := v.field(mergeKey)
	if found := from.field(name); found.Node != nil {
		return found
	}
	for _, item := range from.Items() {
		if found := item.field(name); found.Node != nil {
			return found
		}
	}
	return missing
}

const mergeKey = "<<"

// Fields returns the keys and values of a mapping, in the order of the file.
func (v Value) Fields() iter.Seq2[string, Value] {
	return func(yield func(string, Value) bool) {
		if v.Node == nil || v.Node.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(v.Node.Content); i += 2 {
			key := v.Node.Content[i].Value
			if !yield(key, v.child(v.Node.Content[i+1], join(v.Path, key))) {
				return
			}
		}
	}
}

// StringMap returns a mapping such as labels, including the keys that "<<" merges. Values of another type are empty.
func (v Value) StringMap() map[string]string {
	texts, merged := map[string]string{}, v.At(mergeKey)
	add := func(from Value) {
		for key := range from.Fields() {
			if key != mergeKey {
				texts[key] = v.At(key).Text()
			}
		}
	}
	add(v)
	add(merged)
	for _, item := range merged.Items() {
		add(item)
	}
	return texts
}

// Items returns the elements of a list.
func (v Value) Items() iter.Seq2[int, Value] {
	return func(yield func(int, Value) bool) {
		if v.Node == nil || v.Node.Kind != yaml.SequenceNode {
			return
		}
		for i := range v.Node.Content {
			if !yield(i, v.item(i)) {
				return
			}
		}
	}
}

// JSON returns the whole object as JSON.
func (o *Object) JSON() ([]byte, error) {
	if o.asJSON != nil {
		return o.asJSON, nil
	}
	data, err := o.Value.JSON()
	o.asJSON = data
	return data, err
}

// Decoded returns the object as clusterctl and the API server decode it, with YAML 1.1.
func (o *Object) Decoded() (object map[string]any, err error) {
	text, err := yaml.Marshal(o.Node)
	if err != nil {
		return nil, fmt.Errorf("printing %s: %w", o, err)
	}
	data, err := sigsyaml.YAMLToJSON(text)
	if err != nil {
		return nil, fmt.Errorf("decoding %s: %w", o, err)
	}
	err = utiljson.Unmarshal(data, &object)
	return object, err
}

// item returns an element of a list.
func (v Value) item(index int) Value {
	return v.child(v.Node.Content[index], v.Path+"["+strconv.Itoa(index)+"]")
}

// MarshalJSON implements json.Marshaler.
func (v Value) MarshalJSON() ([]byte, error) { return v.JSON() }

// JSON returns the value as JSON.
func (v Value) JSON() ([]byte, error) {
	var data any
	if err := v.Node.Decode(&data); err != nil {
		return nil, err
	}
	return json.Marshal(data)
}

// Map returns a mapping as encoding/json decodes it; nil for another or an invalid value.
func (v Value) Map() (content map[string]any) {
	if data, err := v.JSON(); err != nil || json.Unmarshal(data, &content) != nil {
		return nil
	}
	return content
}

// All returns the value itself and all nested values.
func (v Value) All() iter.Seq[Value] {
	return func(yield func(Value) bool) { v.visit(yield) }
}

func (v Value) visit(yield func(Value) bool) bool {
	if !yield(v) {
		return false
	}
	for _, value := range v.Fields() {
		if !value.visit(yield) {
			return false
		}
	}
	for _, item := range v.Items() {
		if !item.visit(yield) {
			return false
		}
	}
	return true
}

// child returns a nested value; an alias is replaced by its anchor.
func (v Value) child(node *yaml.Node, path string) Value {
	if node.Kind == yaml.AliasNode {
		node = node.Alias
	}
	return Value{v.Object, node, node, path}
}

// join adds a field to a path, in brackets if it contains other characters, such as openshift.io/required-scc.
func join(path, field string) string {
	switch {
	case strings.ContainsAny(field, "./"):
		return path + "[" + field + "]"
	case path == "":
		return field
	}
	return path + "." + field
}

// Finding returns one finding, at a value.
func (v Value) Finding(format string, arguments ...any) Findings {
	return Findings{{
		File: cmp.Or(v.Object.file, ManifestsFile), Line: v.Line(), Object: v.Object.String(), Field: v.Path,
		Message: fmt.Sprintf(format, arguments...),
	}}
}

// Line of the file, from 1.
func (v Value) Line() int { return v.Object.before + v.near.Line }

// perVersion are the fields that the API server moves out of the versions if all versions have the same.
var perVersion = map[string][]string{
	"validation": {"schema"}, "subresources": {"subresources"},
	"additionalPrinterColumns": {"additionalPrinterColumns"}, "selectableFields": {"selectableFields"},
}

// AtPath returns the value of a CRD at a path of the API server, or the deepest existing one.
func (d *Definition) AtPath(path string) Value {
	steps := stepsOf(path)
	if len(steps) > 1 && steps[0] == "spec" && perVersion[steps[1]] != nil {
		lifted := append([]string{"spec", "versions", "0"}, perVersion[steps[1]]...)
		steps = append(lifted, steps[2:]...)
	}
	return d.reached(steps)
}

// AtPath returns the value at a path of the API server, or the deepest existing one.
func (v Value) AtPath(path string) Value { return v.reached(stepsOf(path)) }

// reached follows steps down to the deepest existing value, and to the first missing step.
func (v Value) reached(steps []string) Value {
	for _, step := range steps {
		if v = v.step(step); !v.Exists() {
			break
		}
	}
	return v
}

// step goes down by the name of a field, or by the index or the key of an item.
func (v Value) step(step string) Value {
	if index, err := strconv.Atoi(step); err == nil && index >= 0 && index < v.Length() {
		return v.item(index)
	}
	for _, item := range v.Items() {
		if item.At("name").Text() == step || item.At("class").Text() == step {
			return item
		}
	}
	return v.At(step)
}

// stepsOf splits a path such as "spec.versions[0].properties[a.b]".
func stepsOf(path string) (steps []string) {
	for path != "" {
		if rest, inBrackets := strings.CutPrefix(path, "["); inBrackets {
			step, after, _ := strings.Cut(rest, "]")
			steps, path = append(steps, step), after
		} else {
			end := strings.IndexAny(path, ".[")
			if end < 0 {
				end = len(path)
			}
			steps, path = append(steps, path[:end]), path[end:]
		}
		path = strings.TrimPrefix(path, ".")
	}
	return steps
}
