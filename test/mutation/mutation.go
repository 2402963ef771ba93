// SPDX-License-Identifier: Apache-2.0

// Package mutation puts mistakes into the manifests of real providers, by JSON patches, for tests of the validation.
package mutation

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	jsonpatch "github.com/evanphx/json-patch/v5"
	yamlv3 "go.yaml.in/yaml/v3"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/capi-installer/capi-installer/internal/object"
	"github.com/capi-installer/capi-installer/internal/yamldoc"
)

// Mutation is a realistic mistake in an object of a real provider.
type Mutation struct {
	// Provider is the name of a provider of package fixture, or the folder of a rendered one.
	Provider string `json:"provider"`
	// File is the file of a release for clusterctl that has the object; "." stands for an object whose fields are the names and texts of
	// the files of the release. Empty means the manifests of a bundle, or their metadata if Object is empty too.
	File string `json:"file,omitempty"`
	// With is a file next to the mutations, with valid objects that are added to the manifests before the patch.
	With string `json:"with,omitempty"`
	// Object is the kind and the name, such as "Deployment manager".
	Object string `json:"object,omitempty"`
	// Patch is a JSON patch of the object. The patch [{"op": "remove", "path": ""}] removes the object.
	Patch json.RawMessage `json:"patch"`
	// Quoted puts quotes around the variables of the patch. Without it they are plain, such as "replicas: ${N}".
	Quoted bool `json:"quoted,omitempty"`
	// Rule has to find the mistake. Empty means that no rule may: the object stays valid.
	Rule string `json:"rule,omitempty"`
	// Also are further rules that the same mistake breaks. Each other rule that fires is a false finding.
	Also []string `json:"also,omitempty"`

	added []byte // the content of With
}

// Read reads a JSON file with a list of mutations.
func Read(path string) ([]Mutation, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	var all []Mutation
	if err := decoder.Decode(&all); err != nil {
		return nil, fmt.Errorf("reading %s: %w", path, err)
	}
	for i, m := range all {
		if m.With == "" {
			continue
		}
		if all[i].added, err = os.ReadFile(filepath.Join(filepath.Dir(path), m.With)); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// String names the object and the patch.
func (m Mutation) String() string {
	return strings.TrimSpace(m.Provider+" "+m.File) + ": " + m.Object + ": " + string(m.Patch)
}

// ErrNotFound is the error of manifests without the object of a mutation.
var ErrNotFound = errors.New("object not found")

const separator = "\n---\n"

// Apply returns the manifests with the mutated object, and the mutated object alone: nil if the patch removes it.
func (m Mutation) Apply(manifests []byte) (mutated, object []byte, err error) {
	documents := bytes.Split(manifests, []byte(separator))
	if m.added != nil {
		documents = append(documents, bytes.Split(m.added, []byte(separator))...)
	}
	for i, document := range documents {
		if !m.isObject(document) {
			continue
		}
		object, err := m.patch(document)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", m, err)
		}
		if object == nil {
			documents = slices.Delete(documents, i, i+1)
		} else {
			documents[i] = object
		}
		return bytes.Join(documents, []byte(separator)), object, nil
	}
	return nil, nil, fmt.Errorf("%s: %w", m, ErrNotFound)
}

func (m Mutation) isObject(document []byte) bool {
	kind, name, _ := strings.Cut(m.Object, " ")
	if !bytes.Contains(document, []byte(kind)) || !bytes.Contains(document, []byte(name)) {
		return false // without parsing
	}
	objects, err := yamldoc.Objects(document)
	return err == nil && len(objects) == 1 && objects[0].GetKind() == kind && objects[0].GetName() == name
}

func (m Mutation) patch(document []byte) ([]byte, error) {
	encoded, err := yaml.YAMLToJSON(document)
	if err != nil || m.Removes() {
		return nil, err
	}
	patched, err := m.ApplyJSON(encoded)
	if err != nil || !bytes.Contains(patched, []byte("${")) {
		return patched, err
	}
	return m.withStyle(patched, document)
}

// withStyle returns a patched JSON object as YAML. Variables have quotes if they have them in the original document.
func (m Mutation) withStyle(patched, document []byte) ([]byte, error) {
	var object, original yamlv3.Node
	if err := errors.Join(yamlv3.Unmarshal(patched, &object), yamlv3.Unmarshal(document, &original)); err != nil {
		return nil, err
	}
	m.setStyle(&object, &original)
	return yamlv3.Marshal(&object)
}

func (m Mutation) setStyle(node, original *yamlv3.Node) {
	switch {
	case node.Kind != yamlv3.ScalarNode:
		node.Style = 0 // a variable without quotes needs a block
	case !strings.Contains(node.Value, "${"):
	case original != nil && original.Value == node.Value:
		node.Style = original.Style
	case !m.Quoted:
		node.Style = 0
	}
	for i, child := range node.Content {
		m.setStyle(child, childLike(original, node, i))
	}
}

// childLike returns the child of a node that has the key, or the index, of a child of another node; nil if there is none.
func childLike(node, other *yamlv3.Node, index int) *yamlv3.Node {
	if node == nil || node.Kind != other.Kind {
		return nil
	}
	if other.Kind == yamlv3.MappingNode {
		key := other.Content[index-index%2].Value
		for i := 0; i < len(node.Content); i += 2 {
			if node.Content[i].Value == key {
				return node.Content[i+index%2]
			}
		}
		return nil
	}
	if index < len(node.Content) {
		return node.Content[index]
	}
	return nil
}

// Removes reports whether the mutation removes its object.
func (m Mutation) Removes() bool {
	var steps []struct{ Op, Path string }
	return json.Unmarshal(m.Patch, &steps) == nil && len(steps) == 1 && steps[0].Op == "remove" && steps[0].Path == ""
}

// ApplyJSON patches one JSON object.
func (m Mutation) ApplyJSON(object []byte) ([]byte, error) {
	patch, err := jsonpatch.DecodePatch(m.Patch)
	if err != nil {
		return nil, err
	}
	return patch.Apply(object)
}

// WithoutDescriptions removes the descriptions from the schemas of CRDs: they are most of the text of a provider, and no validation reads
// them.
func WithoutDescriptions(manifests []byte) ([]byte, error) {
	return edited(manifests, func(o *unstructured.Unstructured) { dropDescriptions(o.Object["spec"]) })
}

// edited edits each CRD of manifests.
func edited(manifests []byte, edit func(*unstructured.Unstructured)) ([]byte, error) {
	objects, err := yamldoc.Objects(manifests)
	if err != nil {
		return nil, err
	}
	var documents [][]byte
	for _, o := range objects {
		if object.IsCRD(o) {
			edit(o)
		}
		document, err := yaml.Marshal(o.Object)
		if err != nil {
			return nil, err
		}
		documents = append(documents, document)
	}
	return bytes.Join(documents, []byte("---\n")), nil
}

// WithoutDeepFields is WithoutDescriptions, and removes the fields below the fourth level from the schemas of CRDs, such as
// spec.template.spec.kubeadmConfigSpec.users: they are most of a schema, and take most of the time of a validation.
func WithoutDeepFields(manifests []byte) ([]byte, error) {
	return edited(manifests, func(o *unstructured.Unstructured) {
		dropDescriptions(o.Object["spec"])
		versions, _, _ := unstructured.NestedSlice(o.Object, "spec", "versions")
		for _, version := range versions {
			version, _ := version.(map[string]any)
			schema, _, _ := unstructured.NestedFieldNoCopy(version, "schema", "openAPIV3Schema")
			dropDeepFields(schema, 4)
		}
		_ = unstructured.SetNestedSlice(o.Object, versions, "spec", "versions") // it was there
	})
}

// dropDeepFields removes the fields more than some levels below a schema.
func dropDeepFields(schema any, levels int) {
	node, isNode := schema.(map[string]any)
	if !isNode {
		return
	}
	dropDeepFields(node["items"], levels)
	dropDeepFields(node["additionalProperties"], levels)
	properties, _ := node["properties"].(map[string]any)
	if levels == 0 && properties != nil {
		for key := range node {
			delete(node, key)
		}
		node["type"], node["x-kubernetes-preserve-unknown-fields"] = "object", true
		return
	}
	for _, child := range properties {
		dropDeepFields(child, levels-1)
	}
}

// dropDescriptions removes descriptions (texts); a field named description is an object.
func dropDescriptions(value any) {
	switch value := value.(type) {
	case map[string]any:
		if _, isText := value["description"].(string); isText {
			delete(value, "description")
		}
		for _, child := range value {
			dropDescriptions(child)
		}
	case []any:
		for _, child := range value {
			dropDescriptions(child)
		}
	}
}
